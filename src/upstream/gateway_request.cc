#include "upstream/gateway_request.h"

#include <fmt/format.h>

#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {
namespace {

// How much of an answer nobody wants is read to let a script finish, unless the operator wants it
// to run to its end.
constexpr std::uint64_t kDrainBytesMax = 1024 * 1024;

// RFC 9110 §9.2.2; what nginx takes for idempotent, so everything but these.
bool is_idempotent(http::Method method) {
  switch (method) {
    case http::Method::kUnknown:
    case http::Method::kPost:
    case http::Method::kLock:
    case http::Method::kPatch:
      return false;
    default:
      return true;
  }
}

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
      destroy_([](TurnTask& t) { delete &static_cast<Destroy&>(t).request; }, *this),
      upload_(loop_.blocks()),
      spool_(loop_, *this) {}

http::StepOutcome GatewayRequest::begin() {
  // The spool must outlive whatever reads it, which is until the exchange's arena goes.
  exchange_->arena().on_reset(
      this, [](void* self) { static_cast<GatewayRequest*>(self)->exchange_gone(); });
  exchange_->on_abort(abort_hook_);
  attempts_ = &exchange_->state<Attempts>();
  const http::RequestHead& request = exchange_->request();
  // Without a length the origin could not be told one: such a body is always buffered.
  streaming_ = !settings().request_buffering && settings().pass_request_body &&
               request.body_expected && request.content_length &&
               exchange_->body().state() == http::RequestBody::State::kUnread;
  if (streaming_) {
    body_bytes_ = *request.content_length;
    begin_attempt();
  } else if (!settings().pass_request_body) {
    begin_attempt();
  } else {
    exchange_->body().buffer(*this);
  }
  starting_ = false;
  return early_outcome_.value_or(http::StepOutcome::suspend());
}

void GatewayRequest::begin_attempt() {
  const Peer* peer = choose_peer();
  if (peer == nullptr) return;
  if (first_attempt_ms_ == 0) first_attempt_ms_ = now_ms();
  record_attempt(*peer);
  // Made before the connection, so that the origin's worker is not held while we evaluate.
  if (head_.length() == 0) head_ = pass_.protocol->encode_head(*exchange_, body_bytes_);
  head_reader_.emplace(settings().buffer_size);
  end_queued_ = send_over_ = body_taken_ = false;
  send_error_ = 0;
  diagnostics_bytes_ = 0;
  state_ = State::kConnecting;
  // A subrequest has no client of its own: it works for the main request's.
  exchange_->main().set_ends_with_client(!settings().ignore_client_abort);
  connection_ = OriginConnection::open(loop_, *this, peer->address,
                                       {.connect_timeout = settings().connect_timeout,
                                        .send_timeout = settings().send_timeout,
                                        .keepalive = settings().socket_keepalive});
}

// nullptr: there is none, and the exchange has been told.
const Peer* GatewayRequest::choose_peer() {
  const Peer* peer = selector_.next(*pass_.group, now_ms());
  if (peer != nullptr) return peer;
  state_ = State::kDone;
  bool unresolved = true;
  for (const Peer& one : pass_.group->peers) unresolved &= one.unresolved;
  if (unresolved) {
    log(LogLevel::kError, "host not found in upstream \"{}\" when the server started",
        pass_.group->name);
    conclude(http::StepOutcome::fail(503));
  } else {
    exchange_->set_upstream_text(
        exchange_->arena().concat(pass_.protocol->scheme(), "://", pass_.group->name));
    log(LogLevel::kError, "no live upstreams while connecting to upstream");
    conclude(http::StepOutcome::fail(502));
  }
  return nullptr;
}

void GatewayRequest::record_attempt(const Peer& peer) {
  Arena& arena = exchange_->arena();
  const bool first = attempt_ == nullptr;
  attempt_ = arena.make<Attempt>();
  attempt_->address = peer.name;
  attempt_->started_ms = now_ms();
  attempt_->redirected = first && !attempts_->list.empty();
  attempts_->list.push_back(arena, attempt_);
  attempts_->fields.clear();
  exchange_->set_upstream_text(
      arena.concat(pass_.protocol->scheme(), "://", peer.name, peer.address.is_unix() ? ":" : ""));
  log(LogLevel::kDebug, "connect to {}", peer.name);
}

void GatewayRequest::attempt_failed(NextUpstream why, std::uint16_t status) {
  // What was said on the error stream so far often explains the failure.
  flush_diagnostics();
  if (why != kNext403 && why != kNext404) selector_.failed(now_ms());
  if (attempt_ != nullptr && !respond_due_ && !responded_) {
    if (attempt_->status == 0) attempt_->status = status;
  }
  const bool retry = may_retry(why);
  if (retry && connection_->bytes_sent() > 0) resent_ = true;
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
  if (!selector_.has_more(*pass_.group)) return false;
  const std::uint32_t tries = settings().next_upstream_tries;
  if (tries != 0 && selector_.tried() >= tries) return false;
  const Milliseconds limit = settings().next_upstream_timeout;
  if (limit != 0 && now_ms() - first_attempt_ms_ >= limit) return false;
  if (stream_begun_) return false;  // What was streamed is gone.
  if (connection_->bytes_sent() == 0) return true;
  // The origin may have acted already.
  if (resent_) return false;
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
  selector_.release();
  if (connection_ != nullptr) std::exchange(connection_, nullptr)->close();
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
  if (connection_ == nullptr) {
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
    if (connection_ != nullptr) end_attempt();
  }
  selector_.release();  // Its group may live in the arena.
  abort_hook_.unlink();
  spool_.cancel();
  arena_gone_ = true;
  finish_if_unused();
}

void GatewayRequest::finish_if_unused() {
  if (arena_gone_ && connection_ == nullptr) loop_.turn().post_destroy(destroy_);
}

std::string_view GatewayRequest::doing() const {
  switch (state_) {
    case State::kReadingRequest:
      return "reading client request body";
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
