// Bytes of a client after its preface into an HTTP/2 connection, over the simulated loop. The first
// byte chooses how the loop cuts and delays transfers. Nothing may crash, leak, or be left open
// when the client has gone.
#include <cstddef>
#include <cstdint>
#include <string>

#include "../unit/proto/h2_fixture.h"
#include "corehttpd/base/check.h"

namespace corehttpd::h2::testing {
namespace {

// A body that is wanted, answered when it is there.
struct Collect final : http::RequestBody::Waiter {
  http::Exchange* exchange = nullptr;
  void on_body(std::uint16_t status) override {
    if (status != 0) return exchange->resume(http::StepOutcome::fail(status));
    answer(*exchange, "thanks");
    exchange->resume(http::StepOutcome::answered());
  }
};

void add_handlers(Worker& worker) {
  worker.handle("/a", [](http::Exchange& exchange) { return answer(exchange, "hello"); });
  worker.handle("/p", [](http::Exchange& exchange) {
    auto* collect = exchange.arena().make<Collect>();
    collect->exchange = &exchange;
    exchange.body().buffer(*collect);
    return http::StepOutcome::suspend();
  });
  worker.handle("/b", [](http::Exchange& exchange) {
    auto* source = exchange.arena().make<ScriptSource>(exchange.transport());
    source->put(std::string(100'000, 'b'));
    source->finish();
    source->trailer_list.add(exchange.arena(), "X-Sum", "1");
    exchange.response().status = 200;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  worker.handle("/w", [](http::Exchange& exchange) {
    exchange.response().status = 200;
    exchange.respond(exchange.arena().make<ScriptSource>(exchange.transport()));
    return http::StepOutcome::answered();
  });
}

}  // namespace
}  // namespace corehttpd::h2::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace corehttpd;
  if (size == 0) return 0;
  const std::uint8_t mode = data[0];
  h2::testing::Worker worker(
      {.seed = mode, .short_transfers = (mode & 1) != 0, .delays = (mode & 2) != 0});
  h2::testing::add_handlers(worker);
  io::SimPeer& peer = worker.loop.connect_pair();
  h2::take_over(peer.fd(), worker.info, worker.services,
                std::as_bytes(std::span(h2::kPreface, h2::kPrefaceBytes)), worker.set);
  peer.push({reinterpret_cast<const char*>(data + 1), size - 1});
  worker.loop.run_until_blocked();
  peer.take();
  worker.loop.run_until_blocked();
  if ((mode & 4) != 0) worker.set.drain();
  worker.loop.run_until_blocked();
  peer.finish();
  worker.loop.run_until_quiet();
  CORE_CHECK(worker.set.empty());
  CORE_CHECK(worker.counters.closed == 1);
  CORE_CHECK(static_cast<int>(worker.log.lines.size()) == worker.counters.requests);
  CORE_CHECK(worker.loop.blocks().in_use() == 0);
  return 0;
}
