// Servers and connections: one is chosen, a place at it is waited for, a kept connection is used
// again or a new one made, and given back at the end.
#include <cerrno>
#include <utility>

#include "corehttpd/base/check.h"
#include "upstream/gateway_request.h"

namespace corehttpd::upstream {

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

// --- The servers' names.

// False: they are waited for, or the request has failed.
bool GatewayRequest::find_servers() {
  Milliseconds patience = 0;
  if (pass_.named == nullptr) {
    DynamicServers& servers = *pass_.group->dynamic;
    if (servers.fresh(loop_, *this)) {
      use_servers();
      return true;
    }
    patience = servers.timeout();
  } else {
    const ResolverSettings& resolver = *pass_.named->resolver;
    if (const NameAnswer* known = resolver.resolver->look_up(loop_, pass_.named->host, *this)) {
      use_name(*known);
      return true;
    }
    patience = resolver.timeout;
  }
  state_ = State::kResolving;
  loop_.schedule(read_timer_, patience);
  return false;
}

void GatewayRequest::use_servers() {
  version_ = &pass_.group->dynamic->acquire();
  group_ = &version_->group;
}

void GatewayRequest::use_name(const NameAnswer& answer) {
  group_ = make_group(exchange_->arena(), pass_.named->text, answer.addresses, pass_.named->port,
                      *pass_.named->backends);
}

void GatewayRequest::on_servers() {
  loop_.cancel(read_timer_);
  use_servers();
  begin_attempt();
}

void GatewayRequest::on_name(const NameAnswer& answer) {
  loop_.cancel(read_timer_);
  if (answer.code == 0) {
    use_name(answer);
    return begin_attempt();
  }
  log(LogLevel::kError, "{} could not be resolved ({}: {})", pass_.named->host, answer.code,
      describe_name_failure(answer.code));
  state_ = State::kDone;
  conclude(http::StepOutcome::fail(502));
}

void GatewayRequest::resolve_timed_out() {
  if (pass_.named != nullptr) {
    NameWaiter::unlink();
    NameAnswer late;
    late.code = NameAnswer::kTimedOut;
    return on_name(late);
  }
  // With what was known before, or without any server.
  DynamicServers::Waiter::unlink();
  on_servers();
}

void GatewayRequest::stop_resolving() {
  if (state_ != State::kResolving) return;
  NameWaiter::unlink();
  DynamicServers::Waiter::unlink();
  loop_.cancel(read_timer_);
  state_ = State::kDone;
}

// --- One of them.

void GatewayRequest::begin_attempt() {
  // A subrequest has no client of its own: it works for the main request's.
  exchange_->main().set_ends_with_client(!settings().ignore_client_abort);
  if (group_ == nullptr && !find_servers()) return;
  if (group_->peers.empty()) return no_live_upstreams();
  if (first_attempt_ms_ == 0) {
    first_attempt_ms_ = now_ms();
    selector_.begin(*group_, exchange_, settings().next_upstream_tries);
    choose_local_address();
  }
  const Peer* peer = selector_.next(now_ms());
  if (peer == nullptr) return no_live_upstreams();
  record_attempt(peer->name);
  exchange_->set_upstream_text(exchange_->arena().concat(
      pass_.protocol->scheme(), "://", peer->name, peer->address.is_unix() ? ":" : ""));
  log(LogLevel::kDebug, "connect to {}", peer->name);
  peer_ = peer;
  obtain_connection();
}

void GatewayRequest::choose_local_address() {
  bind_ = settings().bind;
  if (settings().bind_program.empty()) return;
  const std::string_view text = settings().bind_program.evaluate(*exchange_);
  auto* address = exchange_->arena().make<io::Address>();
  if (text.empty()) return;
  if (parse_bind_address(text, *address)) {
    bind_ = address;
  } else {
    log(LogLevel::kError, "invalid local address \"{}\"", text);
  }
}

void GatewayRequest::no_live_upstreams() {
  state_ = State::kDone;
  bool unresolved = group_->block == nullptr;
  for (const Peer& one : group_->peers) unresolved &= one.unresolved;
  if (unresolved) {
    log(LogLevel::kError, "host not found in upstream \"{}\" when the server started",
        group_->name);
    return conclude(http::StepOutcome::fail(503));
  }
  record_attempt(group_->name);
  attempt_->status = 502;
  attempt_->response_ms = 0;
  exchange_->set_upstream_text(
      exchange_->arena().concat(pass_.protocol->scheme(), "://", group_->name));
  log(LogLevel::kError, "no live upstreams while connecting to upstream");
  conclude(http::StepOutcome::fail(502));
}

void GatewayRequest::record_attempt(std::string_view address) {
  Arena& arena = exchange_->arena();
  const bool first = attempt_ == nullptr;
  attempt_ = arena.make<Attempt>();
  attempt_->address = address;
  attempt_->started_ms = now_ms();
  attempt_->redirected = first && !attempts_->list.empty();
  attempts_->list.push_back(arena, attempt_);
  attempts_->fields.clear();
}

// --- Getting one.

void GatewayRequest::obtain_connection() {
  const Group& group = *group_;
  backend_ = peer_->backend;
  const bool keep = pass_.keep_connection.value_or(backend_ != nullptr);
  if (keep != keep_) head_ = Segment();  // It says whether the connection is kept.
  keep_ = keep;
  keeper_ = keep && backend_ == nullptr && group.keepalive.connections > 0 ? &group : nullptr;
  if (keeper_ != nullptr && group.block != nullptr) keeper_ = group.block;
  OriginConnection* kept = nullptr;
  if (backend_ != nullptr) {
    const auto queue_max =
        group.queue_max > 0 ? group.queue_max : static_cast<std::uint32_t>(settings().queue_max);
    // What is streamed cannot be sent twice, so it is not put at the risk of a stale connection.
    switch (backend_->acquire(loop_, *this, queue_max, streaming_, kept)) {
      case Backend::Place::kWait:
        state_ = State::kQueued;
        loop_.schedule(read_timer_, queue_timeout());
        return;
      case Backend::Place::kFull:
        return queue_full();
      case Backend::Place::kOpen:
      case Backend::Place::kReused:
        has_place_ = true;
    }
  } else if (keeper_ != nullptr && keeper_->idle != nullptr && !streaming_) {
    std::size_t dead = 0;
    kept = keeper_->idle->take(&peer_->address, dead);
  }
  if (kept != nullptr) return adopt_connection(*kept);
  open_connection();
}

Milliseconds GatewayRequest::queue_timeout() const {
  return group_->queue_max > 0 ? group_->queue_timeout : settings().queue_timeout;
}

OriginConnection::Options GatewayRequest::connection_options() const {
  return {.connect_timeout = settings().connect_timeout,
          .send_timeout = settings().send_timeout,
          .keepalive = settings().socket_keepalive,
          .bind = bind_,
          .transparent = settings().bind_transparent};
}

void GatewayRequest::prepare_sending() {
  // Made before the connection, so that the origin's worker is not held while we evaluate.
  if (head_.length() == 0) head_ = pass_.protocol->encode_head(*exchange_, body_bytes_, keep_);
  head_reader_.emplace(settings().buffer_size, pass_.protocol->has_status_line());
  end_queued_ = send_over_ = body_taken_ = reusable_ = false;
  send_error_ = 0;
  diagnostics_bytes_ = 0;
}

void GatewayRequest::open_connection() {
  if (exchange_ != nullptr) prepare_sending();
  if (head_.length() == 0) {
    log(LogLevel::kError, "{} request is too big: its parameters take more than 65535 bytes",
        pass_.protocol->title());
    end_attempt();
    return conclude(http::StepOutcome::fail(500));
  }
  state_ = State::kConnecting;
  reused_ = false;
  connection_ = OriginConnection::open(loop_, *this,
                                       held_address_ == nullptr ? peer_->address : *held_address_,
                                       connection_options());
}

void GatewayRequest::adopt_connection(OriginConnection& connection) {
  if (exchange_ != nullptr) prepare_sending();
  state_ = State::kConnecting;
  reused_ = true;
  connection_ = &connection;
  connection.hand_over(*this, connection_options());
  on_connected();
}

void GatewayRequest::on_place(OriginConnection* connection) {
  loop_.cancel(read_timer_);
  has_place_ = true;
  if (connection != nullptr && streaming_) std::exchange(connection, nullptr)->close();
  if (connection != nullptr) return adopt_connection(*connection);
  open_connection();
}

// --- When there is none.

void GatewayRequest::queue_full() {
  log(LogLevel::kError,
      "upstream queue is full while connecting to upstream: backend \"{}\" has {} of {} "
      "connections in use and {} requests waiting, the first for {} ms; more workers of the "
      "backend "
      "or a larger queue would take it",
      backend_->name(), backend_->in_use(), backend_->capacity(), backend_->waiting(),
      backend_->waiting_ms());
  give_up_waiting();
}

void GatewayRequest::queue_timed_out() {
  backend_->leave(*this);
  log(LogLevel::kError,
      "upstream timed out {} while waiting for a connection to upstream: backend \"{}\" has {} of "
      "{} connections in use and {} requests waiting here; its workers are all busy",
      errno_text(ETIMEDOUT), backend_->name(), backend_->in_use(), backend_->capacity(),
      backend_->waiting());
  give_up_waiting();
}

void GatewayRequest::give_up_waiting() {
  if (exchange_ == nullptr) return end_attempt();
  attempt_->status = 503;
  const bool others = selector_.tries_left() > 1 && (settings().next_upstream & kNextOff) == 0;
  end_attempt();
  if (others) return begin_attempt();
  exchange_->response().fields.add(exchange_->arena(), http::FieldName::kOther, "Retry-After", "5");
  conclude(http::StepOutcome::fail(503));
}

// A kept connection had ended before the request could reach anybody: that is no failure of the
// server. The request is sent anew over a fresh one, once, in the same place.
bool GatewayRequest::retry_over_fresh(int errno_value) {
  if (exchange_ == nullptr || stream_begun_ || respond_due_ || responded_) return false;
  // A pool that is being restarted also closes new connections that its old workers have accepted.
  if (!reused_ && (backend_ == nullptr || retried_)) return false;
  if (attempt_->bytes_received > 0) return false;
  // The kernel knows when nothing can have been begun with what we sent.
  const bool unread = errno_value == ECONNRESET || errno_value == EPIPE || send_error_ == EPIPE ||
                      send_error_ == ECONNRESET || connection_->bytes_sent() == 0 ||
                      connection_->left_unread();
  if (!unread) {
    if (!reused_) return false;
    if (!is_idempotent(exchange_->request().method) &&
        (settings().next_upstream & kNextNonIdempotent) == 0) {
      return false;
    }
  }
  if (!reused_) retried_ = true;
  log(LogLevel::kInfo, "upstream closed a connection unread, sending the request over a new one");
  loop_.cancel(read_timer_);
  std::exchange(connection_, nullptr)->close();
  codec_ = nullptr;
  piece_ = Segment();
  body_reader_ = nullptr;
  open_connection();
  return true;
}

// A request that waits for a place goes on without its client (ignore_client_abort): all that it
// needs of the exchange is taken over. False: it could not be.
bool GatewayRequest::wait_alone() {
  prepare_sending();
  if (head_.length() == 0 || !hold_request_body()) return false;
  held_address_ = std::make_unique<io::Address>(peer_->address);
  if (bind_ != settings().bind) bind_ = nullptr;
  return true;
}

// --- Giving it back.

void GatewayRequest::let_go_of_connection() {
  if (state_ == State::kQueued && backend_ != nullptr) backend_->leave(*this);
  OriginConnection* connection = std::exchange(connection_, nullptr);
  const bool reusable = std::exchange(reusable_, false);
  const Group* keeper = std::exchange(keeper_, nullptr);
  if (std::exchange(abandoned_, false) && has_place_ && connection != nullptr && !reusable) {
    std::array<std::byte, OriginCodec::kFrameBytesMax> farewell;
    if (connection->abandon(std::span(farewell).first(codec_->abort(farewell.data())))) {
      has_place_ = false;
      return backend_->keep_until_end(*connection, settings().read_timeout);
    }
  }
  if (connection != nullptr && !reusable) std::exchange(connection, nullptr)->close();
  if (std::exchange(has_place_, false)) return backend_->give_back(connection);
  if (connection == nullptr) return;
  if (keeper == nullptr || connection->uses() >= keeper->keepalive.requests ||
      now_ms() - connection->opened_ms() >= keeper->keepalive.time) {
    return connection->close();
  }
  // Never destroyed: it is the worker's, whose end closes everything.
  if (keeper->idle == nullptr) keeper->idle = new IdleConnections();
  if (keeper->idle->size() >= keeper->keepalive.connections) keeper->idle->drop_oldest();
  keeper->idle->keep(loop_, *connection, keeper->keepalive.timeout);
}

}  // namespace corehttpd::upstream
