#include "upstream/gateway_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {
namespace {

// How much of an answer nobody wants is read to let a script finish, unless the operator wants it
// to run to its end.
constexpr std::uint64_t kDrainBytesMax = 1024 * 1024;

}  // namespace

http::StepOutcome pass_to_origin(http::Exchange& exchange, const GatewayPass& pass) {
  return GatewayRequest::start(exchange, pass);
}

http::StepOutcome GatewayRequest::start(http::Exchange& exchange, const GatewayPass& pass) {
  return (new GatewayRequest(exchange, pass))->begin();
}

GatewayRequest::GatewayRequest(http::Exchange& exchange, const GatewayPass& pass)
    : exchange_(&exchange),
      loop_(exchange.services().loop),
      pass_(pass),
      abort_hook_([](http::AbortHook& hook,
                     const Error&) { static_cast<Hook&>(hook).request.client_gone(); },
                  *this),
      read_timer_([](io::Timer& t) { static_cast<Timer&>(t).request.on_read_timer(); }, *this),
      rate_timer_([](io::Timer& t) { static_cast<Timer&>(t).request.on_rate_timer(); }, *this),
      destroy_([](TurnTask& t) { delete &static_cast<Destroy&>(t).request; }, *this),
      group_(pass.group != nullptr && pass.group->dynamic == nullptr ? pass.group : nullptr),
      upload_(loop_.blocks()),
      spool_(loop_, *this) {}

GatewayRequest::~GatewayRequest() {
  if (version_ != nullptr) pass_.group->dynamic->release(*version_);
}

http::StepOutcome GatewayRequest::begin() {
  // The spool must outlive whatever reads it, which is until the exchange's arena goes.
  exchange_->arena().on_reset(
      this, [](void* self) { static_cast<GatewayRequest*>(self)->exchange_gone(); });
  exchange_->on_abort(abort_hook_);
  attempts_ = &exchange_->state<Attempts>();
  const http::RequestHead& request = exchange_->request();
  streaming_ = !settings().request_buffering && settings().pass_request_body &&
               request.body_expected && (request.content_length || may_omit_length()) &&
               exchange_->body().state() == http::RequestBody::State::kUnread;
  if (streaming_) {
    body_bytes_ = request.content_length.value_or(0);
    begin_attempt();
  } else if (!settings().pass_request_body && &exchange_->main() != exchange_) {
    // A main request's is read though nobody gets it, as nginx does: its limits hold.
    begin_attempt();
  } else {
    exchange_->body().buffer(*this);
  }
  starting_ = false;
  return early_outcome_.value_or(http::StepOutcome::suspend());
}

// PHP reads no more of a body than CONTENT_LENGTH says, and SCGI begins with it: one of unknown
// length is buffered for them whatever is configured. (Of origins that no pool file tells of we
// don't know what they are.)
bool GatewayRequest::may_omit_length() const {
  if (pass_.protocol->needs_body_length()) return false;
  if (group_ == nullptr) return true;
  return std::ranges::none_of(group_->peers,
                              [](const Peer& peer) { return peer.backend != nullptr; });
}

void GatewayRequest::attempt_failed(NextUpstream why, std::uint16_t status) {
  // What was said on the error stream so far often explains the failure.
  flush_diagnostics();
  if (why != kNext403 && why != kNext404 && selector_.failed(now_ms())) {
    log(LogLevel::kWarn, "upstream server temporarily disabled while {}", doing());
  }
  if (attempt_ != nullptr && !respond_due_ && !responded_) {
    if (attempt_->status == 0) attempt_->status = status;
  }
  const bool retry = may_retry(why);
  end_attempt();
  if (exchange_ == nullptr) return;
  if (respond_due_) respond();
  if (responded_) {
    spool_.fail({Code::kClosed, Party::kOrigin, status, "reading the response of an origin"});
    return;
  }
  if (retry) return begin_attempt();
  conclude(http::StepOutcome::fail(status));
}

bool GatewayRequest::may_retry(NextUpstream why) const {
  if (exchange_ == nullptr || connection_ == nullptr || responded_ || respond_due_) return false;
  const std::uint32_t allowed = settings().next_upstream;
  if ((allowed & kNextOff) != 0 || (allowed & why) == 0) return false;
  if (selector_.tries_left() <= 1) return false;
  const Milliseconds limit = settings().next_upstream_timeout;
  if (limit != 0 && now_ms() - first_attempt_ms_ >= limit) return false;
  if (stream_begun_) return false;  // What was streamed is gone.
  if (connection_->bytes_sent() == 0) return true;
  // The origin may have acted already.
  return is_idempotent(exchange_->request().method) || (allowed & kNextNonIdempotent) != 0;
}

void GatewayRequest::conclude(http::StepOutcome outcome) {
  CORE_DCHECK(!concluded_);
  concluded_ = true;
  if (starting_) {
    early_outcome_ = outcome;
  } else {
    exchange_->resume(outcome);
  }
}

void GatewayRequest::end_attempt() {
  if (attempt_ != nullptr) {
    attempt_->response_ms = now_ms() - attempt_->started_ms;
    if (connection_ != nullptr) attempt_->bytes_sent = connection_->bytes_sent();
  }
  loop_.cancel(read_timer_);
  loop_.cancel(rate_timer_);
  rate_ = 0;
  selector_.release();
  let_go_of_connection();
  codec_ = nullptr;
  piece_ = Segment();
  body_reader_ = nullptr;
  state_ = State::kDone;
  if (stream_begun_ && !upload_complete_ && exchange_ != nullptr) exchange_->body().discard();
  finish_if_unused();
}

// The exchange is over: its client has gone, or has all of the response. What follows must not
// touch it.
void GatewayRequest::client_gone() {
  if (exchange_ == nullptr) return;
  flush_diagnostics();
  const bool complete = exchange_->complete();
  const bool carry_on = settings().ignore_client_abort && !streaming_;
  if (state_ == State::kReadingRequest) exchange_->body().withdraw();
  stop_resolving();
  if (state_ == State::kQueued && !complete && carry_on && wait_alone()) {
    begin_draining(false);
  } else if (state_ == State::kQueued) {
    log(LogLevel::kInfo, "client prematurely closed connection while {}", doing());
    end_attempt();
  } else if (connection_ == nullptr) {
    state_ = State::kDone;
  } else if (complete && send_over_) {
    begin_draining(true);
  } else if (!complete && carry_on && hold_request_body()) {
    begin_draining(false);
  } else {
    // An origin that has answered before it took all of the request gets no more of it.
    if (!complete)
      log(LogLevel::kInfo,
          "client prematurely closed connection, so upstream connection is closed too while {}",
          doing());
    stream_begun_ = false;
    abandoned_ = !complete && send_over_;
    end_attempt();
  }
  if (attempt_ != nullptr && attempt_->response_ms < 0) {
    attempt_->response_ms = now_ms() - attempt_->started_ms;
    attempt_->bytes_sent = connection_ == nullptr ? 0 : connection_->bytes_sent();
  }
  attempt_ = nullptr;
  attempts_ = nullptr;
  exchange_ = nullptr;
}

void GatewayRequest::begin_draining(bool bounded) {
  // A connection that is still being made or written to goes on as it is: only the answer's fate
  // has changed, and that is told by exchange_.
  if (state_ == State::kReadingHead || state_ == State::kReadingBody) state_ = State::kDraining;
  spool_.cancel();
  drain_max_ = bounded ? drained_bytes_ + kDrainBytesMax : UINT64_MAX;
  if (send_over_ && state_ == State::kDraining) {
    connection_->start_receiving();
    arm_read_timer();
  }
}

// The answer's head was all that was wanted (HEAD, 304…), or the client goes away.
void GatewayRequest::on_spool_cancelled() {
  drain_max_ = drained_bytes_ + kDrainBytesMax;
  on_spool_room();
}

// The arena is being emptied: nobody holds the spool any more.
void GatewayRequest::exchange_gone() {
  // An exchange can end without its hooks when the worker ends.
  if (exchange_ != nullptr) {
    exchange_ = nullptr;
    attempt_ = nullptr;
    stream_begun_ = false;
    stop_resolving();
    if (connection_ != nullptr || state_ == State::kQueued) end_attempt();
  }
  selector_.release();  // Its group may live in the arena.
  abort_hook_.unlink();
  spool_.cancel();
  arena_gone_ = true;
  finish_if_unused();
}

void GatewayRequest::finish_if_unused() {
  if (arena_gone_ && connection_ == nullptr && state_ != State::kQueued)
    loop_.turn().post_destroy(destroy_);
}

// Pauses as long as what has come so far is more than the rate allows, a second's worth ahead.
void GatewayRequest::keep_to_rate() {
  if (rate_ == 0 || attempt_ == nullptr || spool_.ended() || spool_.cancelled()) return;
  const auto allowed =
      static_cast<double>(rate_) * (static_cast<double>(now_ms() - rate_since_ms_) / 1000.0 + 1);
  const double excess = static_cast<double>(attempt_->response_length) - allowed;
  if (excess <= 0) return;
  connection_->stop_receiving();
  loop_.cancel(read_timer_);
  loop_.schedule(rate_timer_, static_cast<Milliseconds>(
                                  std::min(excess * 1000 / static_cast<double>(rate_) + 1, 1e9)));
}

void GatewayRequest::on_rate_timer() {
  if (connection_ == nullptr || (responded_ && !spool_.ended() && spool_.full())) return;
  connection_->start_receiving();
  arm_read_timer();
}

// " (what may help; backend "www": 8 of 8 connections in use, 12 requests waiting)", for the lines
// that explain a 502 or 504; of a server whose capacity is not known only the hint.
std::string GatewayRequest::about_backend(std::string_view hint) const {
  if (backend_ == nullptr) return hint.empty() ? std::string() : fmt::format(" ({})", hint);
  return fmt::format(" ({}{}backend \"{}\": {} of {} connections in use, {} requests waiting)",
                     hint, hint.empty() ? "" : "; ", backend_->name(), backend_->in_use(),
                     backend_->capacity(), backend_->waiting());
}

// The same of a time that has run out: which directive sets it.
std::string GatewayRequest::about_time(std::string_view directive, Milliseconds value) const {
  return about_backend(fmt::format("{}_{} {}ms", pass_.protocol->scheme(), directive, value));
}

std::string_view GatewayRequest::doing() const {
  switch (state_) {
    case State::kReadingRequest:
      return "reading client request body";
    case State::kResolving:
    case State::kQueued:
    case State::kConnecting:
      return "connecting to upstream";
    case State::kSending:
      return "sending request to upstream";
    case State::kReadingHead:
      return "reading response header from upstream";
    case State::kReadingBody:
    case State::kDraining:
    case State::kDone:
      break;
  }
  return "reading upstream";
}

std::string GatewayRequest::errno_text(int errno_value) {
  char buffer[128];
  return fmt::format("({}: {})", errno_value, ::strerror_r(errno_value, buffer, sizeof(buffer)));
}

}  // namespace corehttpd::upstream
