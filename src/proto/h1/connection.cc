#include "proto/h1/connection.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "proto/connection_log.h"

namespace corehttpd::h1 {
namespace {

// keepalive_disable. nginx's tests: "MSIE " followed by a version up to 6, on POST; "Safari/" with
// "Mac OS X", but not Chrome, which says both.
bool is_disabled_browser(const http::Exchange& exchange, const http::CoreSettings& settings) {
  using Core = http::CoreSettings;
  const bool posted = exchange.request().method == http::Method::kPost;
  const bool safari = (settings.keepalive_disable & Core::kDisableSafari) != 0;
  if (!safari && !(posted && (settings.keepalive_disable & Core::kDisableMsie6) != 0)) return false;
  const std::string_view agent = exchange.request().fields.value(http::FieldName::kUserAgent);
  const auto has = [agent](std::string_view text) {
    return agent.find(text) != std::string_view::npos;
  };
  if (const std::size_t msie = agent.find("MSIE "); msie != std::string_view::npos) {
    const std::string_view version = agent.substr(msie + 5);
    return posted && (settings.keepalive_disable & Core::kDisableMsie6) != 0 &&
           version.size() > 1 && version[0] >= '1' && version[0] <= '6' && version[1] == '.';
  }
  return safari && has("Safari/") && has("Mac OS X") && !has("Chrome/") && !has("Opera");
}

}  // namespace

void Connection::serve(int fd, const http::ConnectionInfo& info, Context& context,
                       std::unique_ptr<proto::TlsChannel> tls,
                       std::span<const std::byte> received) {
  auto* connection = new Connection(fd, info, context, std::move(tls));
  context.connections.add(*connection);
  context.services.counters.activity(connection->activity_, +1);
  // One that the kernel had accepted before the listener was closed missed the call to drain.
  Milliseconds timeout = connection->settings_.client_header_timeout;
  if (context.services.draining) timeout = std::min(timeout, connection->drain_idle());
  connection->wait_for(Wait::kFirstByte, timeout, true);
  connection->receive();
  if (!received.empty()) connection->on_received(received);
}

Connection::Connection(int fd, const http::ConnectionInfo& info, Context& context,
                       std::unique_ptr<proto::TlsChannel> tls)
    : io::ReceiveState(
          static_cast<io::Receiver&>(*this),
          [](io::ReceiveState& state) { static_cast<Connection&>(state).on_stopped(); }),
      io::Operation([](io::Operation& operation, int result) {
        static_cast<Connection&>(operation).on_send_complete(result);
      }),
      io::Timer([](io::Timer& timer) { static_cast<Connection&>(timer).on_timer(); }),
      TurnTask([](TurnTask& task) { static_cast<Connection&>(task).on_turn(); }),
      context_(context),
      settings_(
          context.services.sites.default_site(*info.endpoint).settings.get<http::CoreSettings>()),
      last_settings_(&settings_),
      info_(info),
      fd_(fd) {
  info_.tls = tls.release();
  static_assert(sizeof(Connection) <= kBytesMax);
}

void Connection::poke() {
  if (state_ != State::kOpen) return;
  dirty_ = true;
  if (!running_) context_.services.turn.post(task());
}

void Connection::on_turn() {
  switch (state_) {
    case State::kOpen:
      return advance();
    case State::kClosing:
      return continue_close();
    case State::kClosed:
      delete this;
      return;
    case State::kHandingOver:
    case State::kLingering:
      return;
  }
}

// Does all that can be done now. Whatever an exchange asks for meanwhile is done here too, not in
// its call.
void Connection::advance() {
  if (running_ || state_ != State::kOpen) return;
  running_ = true;
  for (int round = 0; round == 0 || (dirty_ && round < kRoundsMax); ++round) {
    dirty_ = false;
    step();
    if (state_ != State::kOpen) break;
  }
  if (state_ == State::kOpen) retire();
  if (state_ == State::kOpen) flush();
  running_ = false;
  if (state_ != State::kOpen) return;
  settle();
  // A source and its reader that keep waking each other must let others have their turn.
  if (dirty_ && state_ == State::kOpen) context_.services.turn.post(task());
}

void Connection::step() {
  while (state_ == State::kOpen) {
    if (!serving_) {
      if (last_request_) return discard_input();
      if (request_count_ >= kQueueMax || !begin_request()) return;
      continue;
    }
    Request& request = *current();
    feed_body(request);
    if (!request.failure) request.pull();
    if (request.failure) abandon(request);
    if (!request.produced) return;
    if (request.keep_alive && !request.body.done) return;
    if (!request.keep_alive) last_request_ = true;
    unread_input_ |= !request.body.done;
    serving_ = false;
  }
}

// The response breaks off. What is queued goes out, earlier responses among it; the connection's
// end then tells the client.
void Connection::abandon(Request& request) {
  request.produced = true;
  request.keep_alive = false;
  if (!std::exchange(request.logged, true)) request.exchange.on_transport_lost(*request.failure);
}

bool Connection::may_persist(const http::Exchange& exchange,
                             const http::CoreSettings& settings) const {
  return !is_disabled_browser(exchange, settings) && settings.keepalive_timeout > 0 &&
         info_.requests < settings.keepalive_requests &&
         now() - info_.accepted_ms < settings.keepalive_time && !context_.services.draining;
}

// What the connection waits for now, and whether it reads.
void Connection::settle() {
  if (requests_.empty()) {
    if (last_request_ || end_of_input_) {
      if (!last_request_ && has_input())
        log_info("client prematurely closed connection while reading client request headers");
      return finish();
    }
    if (has_input()) {
      set_activity(http::Counters::Activity::kReading);
      wait_for(Wait::kHead, settings_.client_header_timeout, false);
    } else {
      enter_idle();
    }
  } else {
    set_activity(http::Counters::Activity::kWriting);
    if (end_of_input_ && requests_.front().exchange.ends_with_client()) {
      return lose(Error{Code::kClosed, Party::kClient, 0, "client prematurely closed connection"});
    }
    const auto& settings = requests_.back().exchange.settings<http::CoreSettings>();
    if (send_operation().pending()) {
      wait_for(Wait::kSend, settings.send_timeout, send_progress_);
    } else if (serving_ && current()->logged) {
      wait_for_rest(Wait::kDiscard);
    } else if (serving_ && current()->awaiting_body()) {
      wait_for(Wait::kBody, settings.client_body_timeout, read_progress_);
    } else {
      wait_ = Wait::kNothing;
      deadline_ms_ = kNever;
    }
  }
  read_progress_ = send_progress_ = false;
  steer_receive();
}

// Back-pressure: bytes that nobody wants yet are left to the kernel, and so to the client, above a
// mark. Nor is anything read beside the last response, so that its end can be the connection's at
// once; but a client that is still uploading may be unable to read before it is done.
void Connection::steer_receive() {
  const bool want =
      !end_of_input_ &&
      (requests_.empty() || (last_request_ ? unread_input_ : input().size() < kInputHigh));
  if (want == receive_state().armed()) return;
  if (want) {
    receive();
  } else if (!end_of_input_) {
    receive_stop();
  }
}

void Connection::enter_idle() {
  if (wait_ == Wait::kFirstByte || wait_ == Wait::kIdle) return;
  set_activity(http::Counters::Activity::kWaiting);
  scanner_.reset();
  Milliseconds timeout = last_settings_->keepalive_timeout;
  if (context_.services.draining) timeout = std::min(timeout, drain_idle());
  wait_for(Wait::kIdle, timeout, true);
}

// progress: the thing waited for has moved, so the time begins anew; else only if something else
// was waited for before.
void Connection::wait_for(Wait wait, Milliseconds timeout, bool progress) {
  if (wait == wait_ && !progress) return;
  wait_ = wait;
  deadline_ms_ = now() + timeout;
  const bool idle = wait == Wait::kIdle || wait == Wait::kFirstByte;
  arm_timer(idle && !swapped_ ? std::min(deadline_ms_, now() + kIdleSwap) : deadline_ms_);
}

// lingering_timeout between two reads, lingering_time for all of them.
void Connection::wait_for_rest(Wait wait) {
  const Milliseconds age = now() - info_.accepted_ms;
  if (wait_ != wait) {
    // Counted so it fits into 32 bits for 49 days; a connection as old does without.
    rest_until_ms_ = static_cast<std::uint32_t>(
        std::clamp<Milliseconds>(age + last_settings_->lingering_time, 0, UINT32_MAX));
  }
  const bool progress = read_progress_;
  const Milliseconds timeout =
      std::min<Milliseconds>(last_settings_->lingering_timeout, rest_until_ms_ - age);
  wait_for(wait, std::max<Milliseconds>(timeout, 0), progress);
}

// The timer is moved only when it would come too late: deadlines move with every request, and one
// that comes early looks again.
void Connection::arm_timer(Milliseconds at_ms) {
  if (timer().scheduled() && timer().due_ms() <= at_ms) return;
  loop().schedule(timer(), at_ms - now());
}

void Connection::on_timer() {
  if (wait_ == Wait::kNothing || state_ == State::kClosing || state_ == State::kClosed) return;
  if (now() >= deadline_ms_) return expire();
  if (wait_ == Wait::kIdle && !swapped_) {
    // The deadline was set when the connection became idle.
    const Milliseconds swap_at = deadline_ms_ - last_settings_->keepalive_timeout + kIdleSwap;
    if (now() < swap_at && swap_at < deadline_ms_) return arm_timer(swap_at);
    swapped_ = true;
    receive_idle();
  }
  arm_timer(deadline_ms_);
}

void Connection::expire() {
  const Error timed_out{Code::kTimeout, Party::kClient, 408, "client timed out"};
  switch (wait_) {
    case Wait::kNothing:
      return;
    case Wait::kFirstByte:
    case Wait::kIdle:
      return begin_close();
    case Wait::kLinger:
      return begin_close();
    case Wait::kHead:
      refuse_head(408, "client timed out while reading client request headers");
      return advance();
    case Wait::kBody:
      log_info("client timed out while reading client request body");
      running_ = true;
      current()->break_body(timed_out);
      running_ = false;
      unread_input_ = true;
      return advance();
    case Wait::kSend:
      log_info("client timed out while sending response to client");
      reset_on_close_ = last_settings_->reset_timedout_connection;
      return lose(timed_out);
    case Wait::kDiscard:
      return lose(timed_out);
  }
}

void Connection::set_activity(http::Counters::Activity activity) {
  if (activity == activity_) return;
  context_.services.counters.activity(activity_, -1);
  context_.services.counters.activity(activity, +1);
  activity_ = activity;
}

// All is sent and nothing more will be served.
void Connection::finish() {
  using Lingering = http::CoreSettings::Lingering;
  // What came after the last request was left to the kernel.
  int unread = 0;
  if (!end_of_input_ && !unread_input_ && !client_ends_ && ioctl(fd_, FIONREAD, &unread) == 0)
    unread_input_ = unread > 0;
  const bool linger = last_settings_->lingering_close == Lingering::kAlways ||
                      (last_settings_->lingering_close == Lingering::kOn && unread_input_);
  if (end_of_input_ || !linger) return begin_close();
  // Closing with unread bytes would reset the connection, and the reset can overtake the response
  // (RFC 9112 §9.6).
  if (over_tls()) {
    tls()->stream.shut_down_sending();
  } else if (shutdown(fd_, SHUT_WR) != 0) {
    return begin_close();
  }
  state_ = State::kLingering;
  drop_received();
  input_.clear();
  set_activity(http::Counters::Activity::kWriting);
  read_progress_ = true;
  wait_for_rest(Wait::kLinger);
  if (!receive_state().armed()) receive();
}

void Connection::drain() {
  if (state_ != State::kOpen || (wait_ != Wait::kIdle && wait_ != Wait::kFirstByte)) return;
  deadline_ms_ = std::min(deadline_ms_, now() + drain_idle());
  arm_timer(deadline_ms_);
}

// While draining, idle connections get this long for a last request.
Milliseconds Connection::drain_idle() const {
  return std::max(kDrainIdle, settings_.keepalive_min_timeout);
}

void Connection::close_now() { lose(Error{Code::kCancelled, Party::kSelf, 0, "shutting down"}); }

// The connection ends without a clean end; exchanges hear of it.
void Connection::lose(const Error& error) {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  begin_close();
  for (Request* request = requests_.first(); request != nullptr;
       request = requests_.next(*request)) {
    if (std::exchange(request->logged, true)) continue;
    request->exchange.on_transport_lost(error);
  }
}

void Connection::begin_close() {
  state_ = State::kClosing;
  drop_received();
  loop().cancel(timer());
  context_.services.turn.post(task());
}

void Connection::on_stopped() {
  if (state_ == State::kHandingOver) return hand_over();
  if (state_ == State::kClosing) continue_close();
}

// The descriptor is closed only when the kernel holds nothing of it any more: a closed one would go
// on receiving.
void Connection::continue_close() {
  if (state_ != State::kClosing) return;
  if (send_operation().pending() || !receive_state().idle()) {
    if (stop_asked_) return;
    stop_asked_ = true;
    if (send_operation().pending()) cancel_send();
    if (!receive_state().idle()) receive_stop();
    return;
  }
  if (over_tls() && !tls()->stream.close(task())) return;
  close_socket();
  context_.services.counters.activity(activity_, -1);
  context_.services.counters.connection_closed();
  destroy_at_end_of_turn();
}

void Connection::close_socket() {
  if (reset_on_close_) {
    const linger abort{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  }
  log_in(settings_.error_log, LogLevel::kDebug, proto::ConnectionLog(info_), 0,
         "close http connection: {}", fd_);
  ::close(fd_);
  fd_ = -1;
}

void Connection::destroy_at_end_of_turn() {
  state_ = State::kClosed;
  loop().cancel(timer());
  serving_ = false;
  TurnQueue& turn = context_.services.turn;
  // Requests first: their exchanges name the connection.
  while (Request* request = requests_.pop_front()) turn.post_destroy(*request);
  task().unlink();
  turn.post_destroy(task());
}

void Connection::log_info(const char* what) const {
  log_in(settings_.error_log, LogLevel::kInfo, proto::ConnectionLog(info_), 0, "{}", what);
}

}  // namespace corehttpd::h1
