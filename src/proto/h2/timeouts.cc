// Every deadline of a connection is watched by one timer, which is moved as rarely as possible:
// events only note when they happened.
#include <algorithm>

#include "proto/h2/connection.h"

namespace corehttpd::h2 {
namespace {

// After this long idle the kernel's memory of an armed receive is given up (design §6).
constexpr Milliseconds kIdlePollMs = 10'000;

}  // namespace

void Connection::need_tick(Milliseconds at_ms) {
  if (tick_.scheduled() && tick_.due_ms() <= at_ms) return;
  services_.loop.schedule(tick_, std::max<Milliseconds>(at_ms - now_ms(), 0));
}

void Connection::set_active(bool active) {
  if (active == active_) return;
  active_ = active;
  using Activity = http::Counters::Activity;
  services_.counters.activity(active ? Activity::kWaiting : Activity::kWriting, -1);
  services_.counters.activity(active ? Activity::kWriting : Activity::kWaiting, +1);
  if (active || fd_ < 0) return;
  idle_since_ms_ = now_ms();
  need_tick(idle_since_ms_ + std::min(kIdlePollMs, idle_timeout()));
}

// A connection that has asked for nothing yet has the time of a request's head, as one on HTTP/1.1
// has.
Milliseconds Connection::idle_timeout() const {
  return last_stream_id_ == 0 ? settings_.client_header_timeout : settings_.keepalive_timeout;
}

void Connection::on_tick() {
  if (!check_connection()) return;
  const Milliseconds now = now_ms();
  Stream* next = nullptr;
  for (Stream* stream = streams_.first(); stream != nullptr; stream = next) {
    next = streams_.next(*stream);
    if (stream->deadline_ms() <= now) stream->on_deadline();
  }
  const Milliseconds deadline = next_deadline();
  // A deadline that has passed without ending anything leads to work at the turn's end, not to the
  // same tick again at once.
  if (deadline != INT64_MAX) need_tick(std::max(deadline, now + 1));
}

// False when the connection is at its end.
bool Connection::check_connection() {
  const Milliseconds now = now_ms();
  if (state_ == State::kClosed) return false;
  if (state_ == State::kLingering) {
    if (now < linger_until_ms_) return true;
    shut(lost_);
    return false;
  }
  const bool silent = !preface_seen_ && now >= begun_ms_ + settings_.client_header_timeout;
  const bool stalled = send_.pending() && now >= send_since_ms_ + settings_.send_timeout;
  if (silent || stalled) {
    log_in(settings_.error_log, LogLevel::kInfo, *this, 0, "client timed out");
    shut(Error{Code::kTimeout, Party::kClient, 0, stalled ? "sending" : "reading the preface"});
    return false;
  }
  if (session_ == nullptr) return true;
  if (headers_since_ms_ >= 0 && now >= headers_since_ms_ + settings_.client_header_timeout) {
    // The request goes; the connection stays, as idle as others are then.
    log_in(settings_.error_log, LogLevel::kInfo, *this, 0, "client timed out");
    headers_since_ms_ = -1;
    if (header_stream_ != nullptr) {
      nghttp2_submit_rst_stream(session(), NGHTTP2_FLAG_NONE, header_stream_->id(),
                                NGHTTP2_PROTOCOL_ERROR);
      post();
    }
  }
  if (state_ == State::kDraining && now >= final_goaway_ms_) finish_drain();
  if (active_ || state_ >= State::kEnding) return true;
  if (now >= idle_since_ms_ + idle_timeout()) {
    finish_drain();
  } else if (!poll_only_ && now >= idle_since_ms_ + kIdlePollMs) {
    poll_only_ = true;
    receive_idle();
    output_.release_storage();
    if (nghttp2_session_want_write(session()) == 0) memory_.rest();
  }
  return true;
}

Milliseconds Connection::next_deadline() {
  if (state_ == State::kLingering) return linger_until_ms_;
  Milliseconds deadline = INT64_MAX;
  const auto at = [&deadline](Milliseconds ms) { deadline = std::min(deadline, ms); };
  if (!preface_seen_) at(begun_ms_ + settings_.client_header_timeout);
  if (send_.pending()) at(send_since_ms_ + settings_.send_timeout);
  if (headers_since_ms_ >= 0) at(headers_since_ms_ + settings_.client_header_timeout);
  if (state_ == State::kDraining) at(final_goaway_ms_);
  if (!active_ && state_ < State::kEnding) {
    if (!poll_only_) at(idle_since_ms_ + kIdlePollMs);
    at(idle_since_ms_ + idle_timeout());
  }
  for (Stream* stream = streams_.first(); stream != nullptr; stream = streams_.next(*stream))
    at(stream->deadline_ms());
  return deadline;
}

}  // namespace corehttpd::h2
