#include "proto/h2/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "corehttpd/http/site.h"
#include "corehttpd/http/tls_info.h"
#include "corehttpd/proto/h2.h"
#include "proto/h2/callbacks.h"

namespace corehttpd::h2 {
namespace {

// Time for requests that crossed the shutdown notice: more than any round trip (RFC 9113 §6.8 asks
// for one).
constexpr Milliseconds kDrainNoticeMs = 1000;
// What is read and dropped of a peer that goes on sending after our end.
constexpr std::size_t kLingerBytesMax = 1024 * 1024;
// A CONTINUATION frame of at least this length carries its own weight: lists have limits of their
// own.
constexpr std::uint32_t kSmallContinuation = 1024;
constexpr std::uint32_t kPaddingMax = 256;  // With the byte that says how much.
constexpr std::uint64_t kBlockSlack = 16 * 1024;
constexpr std::uint32_t kAllTokens = 1'000'000;  // More than any budget holds.

// DATA without data: nothing, or what may be nothing but padding.
bool is_idle(const FrameScanner::Frame& frame) {
  const std::uint32_t padding = (frame.flags & NGHTTP2_FLAG_PADDED) != 0 ? kPaddingMax : 0;
  return frame.length <= padding && (frame.flags & NGHTTP2_FLAG_END_STREAM) == 0;
}

}  // namespace

Connection::Connection(int fd, const http::ConnectionInfo& info, http::Services& services,
                       proto::ConnectionSet& set, std::unique_ptr<proto::TlsChannel> tls)
    : fd_(fd),
      tls_(std::move(tls)),
      info_(info),
      services_(services),
      settings_(services.sites.default_site(*info.endpoint).settings.get<http::CoreSettings>()),
      h2_settings_(services.sites.default_site(*info.endpoint).settings.get<Settings>()),
      scanner_(kPrefaceBytes),
      output_(services.blocks),
      send_([](io::Operation& operation,
               int result) { static_cast<SendOperation&>(operation).connection.on_sent(result); },
            *this),
      receive_(
          *this, [](io::ReceiveState& state) { static_cast<Receive&>(state).connection.post(); },
          *this),
      tick_([](io::Timer& timer) { static_cast<Tick&>(timer).connection.on_tick(); }, *this),
      turn_([](TurnTask& task) { static_cast<Task&>(task).connection.on_turn(); }, *this),
      destroy_([](TurnTask& task) { delete &static_cast<Task&>(task).connection; }, *this) {
  set.add(*this);
  services.counters.activity(http::Counters::Activity::kWaiting, +1);
}

void Connection::begin(std::span<const std::byte> received) {
  begun_ms_ = idle_since_ms_ = now_ms();
  // A graceful end that has begun already will not be announced again: the connection was the
  // acceptor's then, waiting for its first bytes or changing hands.
  drain_asked_ = services_.draining;
  session_ = make_session(*this, settings_, h2_settings_, memory_);
  if (session_ == nullptr || !announce()) {
    close_asked_ = true;
    return post();
  }
  receive();
  need_tick(begun_ms_ + settings_.client_header_timeout);
  post();
  if (!received.empty()) feed(received);
}

void Connection::describe(LogFields& fields) const {
  char text[IpAddress::kTextMax];
  fields.add("client", info_.peer.format(text), false);
  fields.add("server", info_.endpoint->text, false);
}

// --- Input.

void Connection::on_received(std::span<const std::byte> data) {
  poll_only_ = false;
  if (data.empty()) {
    // Half-closed connections serve nobody: a client that has gone must not keep PHP working for
    // it.
    peer_gone_ = true;
    lost_ = {Code::kClosed, Party::kClient, 0, "client closed the connection"};
    return post();
  }
  if (session_ != nullptr && state_ != State::kLingering) return feed(data);
  lingered_bytes_ += data.size();
  if (lingered_bytes_ > kLingerBytesMax) peer_gone_ = true;
  if (peer_gone_) post();
}

void Connection::on_receive_error(int errno_value) {
  peer_gone_ = true;
  if (info_.tls != nullptr && !info_.tls->problem().empty()) {
    log_in(settings_.error_log, LogLevel::kInfo, *this, 0, "{} while processing HTTP/2 connection",
           info_.tls->problem());
  }
  lost_ = error_from_errno(errno_value, "recv()");
  lost_.party = Party::kClient;
  post();
}

void Connection::feed(std::span<const std::byte> data) {
  std::size_t at = 0, fed = 0;
  while (const FrameScanner::Frame* frame = scanner_.next(data, at)) {
    // Where it matters what came before a frame that is taken in first.
    if (frame->type == NGHTTP2_DATA || frame->type == NGHTTP2_CONTINUATION) {
      const std::size_t begin = at - std::min(at, frame->bytes);
      if (!pass_on(data.subspan(fed, begin - fed))) return post();
      fed = begin;
    }
    if (const int error = judge(*frame); error != 0) {
      fail(error);
      return post();
    }
  }
  pass_on(data.subspan(fed));
  post();
}

// False: the session has ended.
bool Connection::pass_on(std::span<const std::byte> data) {
  if (data.empty()) return true;
  const ssize_t used = nghttp2_session_mem_recv(
      session(), reinterpret_cast<const std::uint8_t*>(data.data()), data.size());
  if (used < 0) fail(static_cast<int>(used));
  return used >= 0;
}

bool Connection::abuse(Budget& budget, std::uint32_t tokens) {
  if (budget.spend(now_ms(), tokens)) return false;
  if (!abusive_) log_in(settings_.error_log, LogLevel::kInfo, *this, 0, "http2 flood detected");
  abusive_ = true;
  return true;
}

// The client does what the library would let pass: the connection ends.
int Connection::violate(std::uint32_t error_code, const char* what, std::int32_t stream_id) {
  log_in(settings_.error_log, LogLevel::kInfo, *this, 0, "client sent {}, stream {}", what,
         stream_id);
  violation_ = error_code;
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

// Whether the stream has been and is no more. A client that has not seen our reset yet is right to
// go on with it; the library ignores that. Nobody else is (RFC 9113 §5.1).
bool Connection::is_late(std::int32_t stream_id) {
  return (stream_id & 1) != 0 && stream_id <= last_stream_id_ &&
         nghttp2_session_get_stream_user_data(session(), stream_id) == nullptr;
}

// Looks at a frame before the library does, and charges what is answered, looked at or carries
// nothing. Not charged: DATA with a payload, which the windows and the body's reader bound, and
// HEADERS, which are what a connection is for. What honest clients need is far below: a browser
// sends a handful of PRIORITY and SETTINGS, a PING a minute, a reader at most two WINDOW_UPDATE for
// a DATA frame, which gives back four.
int Connection::judge(const FrameScanner::Frame& frame) {
  std::uint32_t tokens = 1;
  switch (frame.type) {
    case NGHTTP2_DATA:
      if (is_late(frame.stream_id) && nghttp2_session_want_read(session()) != 0) {
        late_bytes_ += frame.length;
        if (now_ms() >= late_until_ms_ || late_bytes_ > kLateBytesMax) {
          return violate(NGHTTP2_STREAM_CLOSED, "DATA frame for a closed stream", frame.stream_id);
        }
      }
      tokens = is_idle(frame) ? 5 : 0;
      break;
    case NGHTTP2_PRIORITY:
      if (frame.stream_id == 0 || frame.stream_id == frame.parent_id)
        return violate(NGHTTP2_PROTOCOL_ERROR, "wrong PRIORITY frame", frame.stream_id);
      break;
    case NGHTTP2_SETTINGS:
      tokens = (frame.flags & NGHTTP2_FLAG_ACK) != 0 ? 1 : 20;
      break;
    case NGHTTP2_PING:
      tokens = 4;
      break;
    case NGHTTP2_PUSH_PROMISE:
      return violate(NGHTTP2_PROTOCOL_ERROR, "PUSH_PROMISE frame", frame.stream_id);
    case NGHTTP2_CONTINUATION:
      head_bytes_ += kFrameHeaderBytes + frame.length;
      tokens = frame.length == 0 ? 250 : frame.length < kSmallContinuation ? 30 : 1;
      // No list is that long, whatever it decodes to.
      if (head_bytes_ / 4 > RequestBuilder::list_bytes_max(settings_) + kBlockSlack)
        tokens = kAllTokens;
      break;
    default:
      break;
  }
  return tokens != 0 && abuse(control_, tokens) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

int Connection::on_begin_frame(const nghttp2_frame_hd& header) {
  if (header.type != NGHTTP2_HEADERS) return 0;
  headers_since_ms_ = -1;
  head_bytes_ = kFrameHeaderBytes + header.length;
  if (!is_late(header.stream_id)) return 0;
  if (now_ms() >= late_until_ms_) {
    return violate(NGHTTP2_PROTOCOL_ERROR, "HEADERS frame with a used identifier",
                   header.stream_id);
  }
  return abuse(control_, 5) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

int Connection::on_begin_headers(const nghttp2_frame& frame) {
  headers_since_ms_ = now_ms();
  need_tick(headers_since_ms_ + settings_.client_header_timeout);
  const std::int32_t id = frame.hd.stream_id;
  if (frame.headers.cat != NGHTTP2_HCAT_REQUEST) {
    header_stream_ = static_cast<Stream*>(nghttp2_session_get_stream_user_data(session(), id));
    return 0;
  }
  last_stream_id_ = id;
  header_stream_ = nullptr;
  if (open_streams_ >= h2_settings_.max_concurrent_streams) {
    // Its fields are decoded, as those of the next request may refer to them.
    nghttp2_submit_rst_stream(session(), NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    forgive_late();
    return abuse(resets_, 1) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }
  Stream* stream = Stream::make(*this, id);
  streams_.push_back(*stream);
  nghttp2_session_set_stream_user_data(session(), id, stream);
  header_stream_ = stream;
  ++open_streams_;
  ++alive_streams_;
  set_active(true);
  return 0;
}

int Connection::on_huge_list() {
  return abuse(control_, 250) ? NGHTTP2_ERR_CALLBACK_FAILURE
                              : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int Connection::on_frame(const nghttp2_frame& frame) {
  preface_seen_ = true;  // The library accepts nothing but SETTINGS as the first frame.
  auto* stream =
      static_cast<Stream*>(nghttp2_session_get_stream_user_data(session(), frame.hd.stream_id));
  const bool end = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS:
      headers_since_ms_ = -1;
      if (stream == nullptr) break;
      if (frame.headers.cat != NGHTTP2_HCAT_REQUEST) {
        stream->on_trailers(end);
        break;
      }
      count_request();
      // A list that is too large was decoded for nothing.
      if (stream->on_head_complete(end, head_bytes_, has_early_priority(frame.hd.stream_id)) ==
              431 &&
          abuse(control_, 10)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
      }
      break;
    case NGHTTP2_DATA:
      if (stream != nullptr && end) stream->on_body_end();
      break;
    case NGHTTP2_RST_STREAM:
      if (stream != nullptr && !stream->response_ended() && abuse(resets_, 1))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
      break;
    case NGHTTP2_PRIORITY_UPDATE:
      return on_priority_update(frame);
    default:
      break;
  }
  return 0;
}

int Connection::on_priority_update(const nghttp2_frame& frame) {
  const auto* update = static_cast<const nghttp2_ext_priority_update*>(frame.ext.payload);
  if (update->stream_id == 0)
    return violate(NGHTTP2_PROTOCOL_ERROR, "PRIORITY_UPDATE frame of nothing", 0);
  if (update->stream_id > last_stream_id_)
    early_priorities_[early_at_++ % early_priorities_.size()] = update->stream_id;
  return 0;
}

bool Connection::has_early_priority(std::int32_t stream_id) const {
  return std::find(early_priorities_.begin(), early_priorities_.end(), stream_id) !=
         early_priorities_.end();
}

void Connection::on_invalid_frame(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_HEADERS) headers_since_ms_ = -1;
}

void Connection::count_request() {
  ++info_.requests;
  const bool old = now_ms() - info_.accepted_ms >= settings_.keepalive_time;
  if (info_.requests >= settings_.keepalive_requests || old) drain_asked_ = true;
}

void Connection::on_stream_closed(Stream& stream, std::uint32_t error_code) {
  --open_streams_;
  if (header_stream_ == &stream) header_stream_ = nullptr;
  stream.on_closed(error_code);
  stream.set_end_position(output_.appended());
  finishing_.push_back(stream);
  post();
}

// --- Life.

void Connection::on_turn() {
  // Other connections' and exchanges' tasks of this turn may still have something for us: one more
  // round lets it leave in the same send.
  if (!settled_) {
    settled_ = true;
    return post();
  }
  settled_ = false;
  if (state_ == State::kClosed) return release_if_idle();
  if (close_asked_ || peer_gone_) return shut(lost_);
  if (drain_asked_ && state_ == State::kServing) begin_drain();
  List<Stream, PendingTag> batch;
  batch.splice_back(pending_);
  while (Stream* stream = batch.pop_front()) stream->run_pending();
  pump();
  retire_streams();
  set_active(!idle());
  const bool done = session_ == nullptr || (nghttp2_session_want_read(session()) == 0 &&
                                            nghttp2_session_want_write(session()) == 0);
  if (done && state_ < State::kLingering && output_.empty() && !send_.pending()) linger();
}

void Connection::drain() {
  drain_asked_ = true;
  post();
}

void Connection::close_now() {
  close_asked_ = true;
  lost_ = {Code::kCancelled, Party::kSelf, 0, "shutting down"};
  post();
}

void Connection::begin_drain() {
  state_ = State::kDraining;
  if (session_ == nullptr) return;
  nghttp2_submit_shutdown_notice(session());
  final_goaway_ms_ = now_ms() + kDrainNoticeMs;
  need_tick(final_goaway_ms_);
}

void Connection::finish_drain() {
  state_ = State::kEnding;
  nghttp2_submit_goaway(session(), NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session()), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  post();
}

void Connection::lose_streams(const Error& error) {
  while (Stream* stream = streams_.first()) {
    stream->on_connection_lost(error);
    stream->set_end_position(output_.appended());
    finishing_.push_back(*stream);
  }
  open_streams_ = 0;
}

// The library has given up on the session; it can't frame any more, so the farewell is made here.
void Connection::fail(int library_error) {
  std::uint32_t code = NGHTTP2_INTERNAL_ERROR;
  if (violation_ != NGHTTP2_NO_ERROR) {
    code = violation_;
  } else if (abusive_ || library_error == NGHTTP2_ERR_FLOODED ||
             library_error == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
    code = NGHTTP2_ENHANCE_YOUR_CALM;
  } else if (library_error == NGHTTP2_ERR_BAD_CLIENT_MAGIC || library_error == NGHTTP2_ERR_PROTO) {
    code = NGHTTP2_PROTOCOL_ERROR;
  }
  log_in(settings_.error_log, LogLevel::kInfo, *this, 0, "closing HTTP/2 connection: {}",
         nghttp2_strerror(library_error));
  give_up(code);
}

void Connection::give_up(std::uint32_t error_code) {
  lose_streams(Error{Code::kReset, Party::kClient, static_cast<std::int32_t>(error_code),
                     "HTTP/2 connection error"});
  nghttp2_session_del(session());
  session_ = nullptr;
  state_ = State::kEnding;
  std::uint8_t frame[kFrameHeaderBytes + 8] = {0, 0, 8, NGHTTP2_GOAWAY};
  const auto put = [&frame](std::size_t at, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) frame[at + i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
  };
  put(kFrameHeaderBytes, static_cast<std::uint32_t>(last_stream_id_));
  put(kFrameHeaderBytes + 4, error_code);
  if (!output_.append_copy(std::as_bytes(std::span(frame)))) close_asked_ = true;
  post();
}

void Connection::linger() {
  if (settings_.lingering_close == http::CoreSettings::Lingering::kOff) return shut(lost_);
  state_ = State::kLingering;
  if (tls_ != nullptr) {
    tls_->stream.shut_down_sending();
  } else {
    ::shutdown(fd_, SHUT_WR);
  }
  linger_until_ms_ = now_ms() + settings_.lingering_timeout;
  need_tick(linger_until_ms_);
}

void Connection::shut(const Error& error) {
  state_ = State::kClosed;
  lost_ = error;
  lose_streams(error);
  if (session_ != nullptr) nghttp2_session_del(session());
  session_ = nullptr;
  services_.loop.cancel(tick_);
  if (receive_.armed()) receive_stop();
  if (send_.pending()) {
    ::shutdown(fd_, SHUT_RDWR);  // A send that waits for room ends at once.
    if (tls_ != nullptr) {
      tls_->stream.cancel(send_);
    } else {
      services_.loop.cancel(send_);
    }
  }
  release_if_idle();
}

void Connection::release_if_idle() {
  if (send_.pending() || !receive_.idle()) return;
  if (fd_ >= 0) {
    if (tls_ != nullptr && !tls_->stream.close(turn_)) return;
    set_active(false);
    services_.counters.activity(http::Counters::Activity::kWaiting, -1);
    services_.counters.connection_closed();
    log_in(settings_.error_log, LogLevel::kDebug, *this, 0, "close http2 connection: {}", fd_);
    ::close(std::exchange(fd_, -1));
    output_.clear();
    while (Stream* stream = finishing_.pop_front()) stream->on_flushed(false);
  }
  if (alive_streams_ == 0) services_.turn.post_destroy(destroy_);
}

void Connection::on_stream_destroyed() {
  --alive_streams_;
  if (state_ == State::kClosed) release_if_idle();
}

void take_over(int fd, const http::ConnectionInfo& info, http::Services& services,
               std::span<const std::byte> received, proto::ConnectionSet& set,
               std::unique_ptr<proto::TlsChannel> tls) {
  (new Connection(fd, info, services, set, std::move(tls)))->begin(received);
}

void take_over(int fd, const http::ConnectionInfo& info, http::Services& services,
               std::span<const std::byte> received, proto::ConnectionSet& set) {
  take_over(fd, info, services, received, set, nullptr);
}

}  // namespace corehttpd::h2
