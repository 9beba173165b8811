#include "proto/newcomer.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace corehttpd::proto {

Newcomer::Newcomer(int fd, const http::ConnectionInfo& info, h1::Context& context)
    : io::Timer([](io::Timer& timer) { static_cast<Newcomer&>(timer).on_timer(); }),
      TurnTask([](TurnTask& task) {
        auto& self = static_cast<Newcomer&>(task);
        if (!self.left_) return self.on_turn();
        delete &self;
      }),
      context_(context),
      settings_(
          context.services.sites.default_site(*info.endpoint).settings.get<http::CoreSettings>()),
      info_(info),
      fd_(fd) {}

void Newcomer::begin() {
  context_.connections.add(*this);
  context_.services.counters.activity(http::Counters::Activity::kReading, +1);
  Milliseconds timeout = settings_.client_header_timeout;
  if (context_.services.draining) timeout = std::min(timeout, kDrainTime);
  context_.services.loop.schedule(static_cast<io::Timer&>(*this), timeout);
}

void Newcomer::drain() {
  auto& timer = static_cast<io::Timer&>(*this);
  if (timer.due_ms() > context_.services.clock.now_ms() + kDrainTime)
    context_.services.loop.schedule(timer, kDrainTime);
}

void Newcomer::close_descriptor() {
  ::close(std::exchange(fd_, -1));
  context_.services.counters.connection_closed();
}

void Newcomer::leave() {
  left_ = true;
  context_.services.loop.cancel(static_cast<io::Timer&>(*this));
  context_.services.counters.activity(http::Counters::Activity::kReading, -1);
  context_.connections.remove(*this);
  static_cast<TurnTask&>(*this).unlink();
  context_.services.turn.post_destroy(static_cast<TurnTask&>(*this));
}

}  // namespace corehttpd::proto
