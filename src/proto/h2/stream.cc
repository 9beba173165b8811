#include "proto/h2/stream.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "corehttpd/base/check.h"
#include "proto/h2/connection.h"
#include "proto/h2/response.h"

namespace corehttpd::h2 {
namespace {

// Memory of streams that ended, for the next ones. A worker is one process with one thread, so one
// list serves all its connections.
class StreamMemory {
 public:
  void* take() {
    if (free_ == nullptr) {
      void* memory = std::malloc(sizeof(Stream));
      CORE_CHECK(memory != nullptr);
      return memory;
    }
    Node* node = free_;
    free_ = node->next;
    --count_;
    return node;
  }
  void give_back(void* memory) {
    if (count_ >= kKeptMax) {
      std::free(memory);
      return;
    }
    free_ = new (memory) Node{free_};
    ++count_;
  }

 private:
  static constexpr std::size_t kKeptMax = 512;
  struct Node {
    Node* next;
  };
  Node* free_ = nullptr;
  std::size_t count_ = 0;
};

StreamMemory stream_memory;

// How long a client may take to read an answer that came before the end of its upload.
constexpr Milliseconds kEarlyAnswerMs = 250;

}  // namespace

Stream* Stream::make(Connection& connection, std::int32_t id) {
  return new (stream_memory.take()) Stream(connection, id);
}

Stream::Stream(Connection& connection, std::int32_t id)
    : owner_(connection),
      id_(id),
      exchange_(connection.services(), *this, connection.info()),
      builder_(exchange_.arena(), exchange_.request(), connection.settings(),
               connection.info().tls != nullptr),
      waiting_(connection.services().blocks),
      lost_{Code::kReset, Party::kClient, 0, "stream reset"} {}

void Stream::destroy_later() { owner_.services().turn.post_destroy(destroy_); }

void Stream::destroy(TurnTask& task) {
  // The task is a member, and this is the only place that knows so.
  auto& destroy_task = static_cast<DestroyTask&>(task);
  Stream& stream = destroy_task.stream;
  Connection& connection = stream.owner_;
  stream.~Stream();
  stream_memory.give_back(&stream);
  connection.on_stream_destroyed();
}

// --- The request's head.

bool Stream::on_field(std::string_view name, std::string_view value) {
  builder_.add(name, value);
  return !builder_.far_too_large();
}

bool Stream::on_trailer(std::string_view name, std::string_view value) {
  builder_.add_trailer(name, value);
  return !builder_.far_too_large();
}

std::uint16_t Stream::on_head_complete(bool end_of_stream, std::uint64_t frame_bytes,
                                       bool keep_priority) {
  exchange_.request().head_bytes = frame_bytes;
  started_ = true;
  end_received_ = end_delivered_ = end_of_stream;
  const std::uint16_t status = builder_.finish(!end_of_stream);
  if (!keep_priority) set_priority();
  if (const char* flaw = builder_.flaw()) {
    exchange_.log(LogLevel::kInfo, 0, "client sent {}", flaw);
    spoiled_ = true;
  }
  if (status != 0) {
    exchange_.start_failed(status);
  } else {
    exchange_.start();
  }
  return status;
}

// RFC 9218's default, one response after the other, is meant for browsers, which say what they
// want. To a client that says nothing (a proxy with many visitors behind one connection, say) a
// small response must not wait for a large download.
void Stream::set_priority() {
  const Priority said = builder_.priority();
  const nghttp2_extpri priority = {.urgency = said.urgency,
                                   .inc = !builder_.has_priority() || said.incremental ? 1 : 0};
  nghttp2_session_change_extpri_stream_priority(owner_.session(), id_, &priority, 0);
}

// --- The request's body.

void Stream::on_data(std::span<const std::byte> bytes) {
  body_seen_ = true;
  received_ += bytes.size();
  const auto& length = exchange_.request().content_length;
  if (length && received_ > *length) spoil("a body larger than its declared length");
  if (response_ended_ || !body_wanted()) {
    owner_.consume(bytes.size());
    return;
  }
  received_ms_ = owner_.now_ms();
  // What has been granted is handed on straight from the receive buffer.
  if (waiting_.empty() && granted_ > 0) {
    const std::size_t direct =
        static_cast<std::size_t>(std::min<std::uint64_t>(granted_, bytes.size()));
    deliver_some(bytes.first(direct));
    bytes = bytes.subspan(direct);
  }
  if (bytes.empty() || closed_) return;
  if (!waiting_.append_copy(bytes)) {
    // The worker's memory is spent: the stream goes, the connection and everybody else stay.
    reset(Error{Code::kUnavailable, Party::kSelf, 0, "buffering a request body"});
    return;
  }
  if (granted_ > 0) mark_pending();
}

void Stream::on_trailers(bool end_of_stream) {
  if (!end_of_stream) return spoil("trailers that do not end the stream");
  if (const char* flaw = builder_.flaw(); flaw != nullptr && !spoiled_) spoil(flaw);
  on_body_end();
}

void Stream::on_body_end() {
  end_received_ = true;
  const auto& length = exchange_.request().content_length;
  if (length && received_ < *length) spoil("a body smaller than its declared length");
  // The end needs no credit: an empty body must complete although nobody asks for its bytes.
  if (waiting_.empty()) deliver();
}

void Stream::consume(std::size_t bytes) {
  if (!closed_) nghttp2_session_consume(owner_.session(), id_, bytes);
}

void Stream::drop_waiting() {
  // Bytes that will never be asked for must not use up the connection's window.
  owner_.consume(static_cast<std::size_t>(waiting_.bytes()));
  waiting_.clear();
}

// The request has turned out malformed after its head (RFC 9113 §8.1.1). It is answered if there is
// still an answer to choose.
void Stream::spoil(const char* flaw) {
  if (spoiled_ || closed_ || reset_by_us_) return;
  exchange_.log(LogLevel::kInfo, 0, "client sent {}", flaw);
  spoiled_ = true;
  if (head_submitted_) return submit_reset(NGHTTP2_PROTOCOL_ERROR);
  granted_ = 0;
  end_delivered_ = true;
  drop_waiting();
  exchange_.body().on_error(Error{Code::kMalformed, Party::kClient, 400, flaw});
}

bool Stream::body_wanted() {
  const http::RequestBody::State state = exchange_.body().state();
  return state != http::RequestBody::State::kDiscarded &&
         state != http::RequestBody::State::kFailed;
}

// Hands on bytes that have been granted.
bool Stream::deliver_some(std::span<const std::byte> bytes) {
  granted_ -= bytes.size();
  exchange_.body().on_data(bytes, false);
  consume(bytes.size());
  return !closed_;
}

void Stream::deliver() {
  while (granted_ > 0 && !waiting_.empty()) {
    const Segment& front = waiting_.front();
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(granted_, front.length()));
    // Shared, because the queue may grow or be emptied while the sink looks at the bytes.
    const Segment piece = front.share(0, count);
    waiting_.consume(count);
    if (!deliver_some({piece.bytes(), count})) return;
  }
  if (end_received_ && !end_delivered_ && waiting_.empty()) {
    end_delivered_ = true;
    exchange_.body().on_data({}, true);
  }
}

void Stream::grant(std::size_t bytes) {
  if (closed_ || end_delivered_ || response_ended_) return;
  if (granted_ == 0) {
    received_ms_ = owner_.now_ms();
    owner_.need_tick(received_ms_ + exchange_.settings<http::CoreSettings>().client_body_timeout);
  }
  granted_ = std::min<std::uint64_t>(granted_ + bytes, INT64_MAX);
  if (!asked_) {
    asked_ = true;
    send_continue();
    const auto& length = exchange_.request().content_length;
    // A body that is known to be short needs no larger window.
    const std::uint32_t window = owner_.h2_settings().body_preread_size;
    if (!end_received_ && (!length || *length > window) &&
        window < static_cast<std::uint32_t>(Connection::kStreamWindow)) {
      nghttp2_session_set_local_window_size(owner_.session(), NGHTTP2_FLAG_NONE, id_,
                                            Connection::kStreamWindow);
      owner_.post();
    }
  }
  if (!waiting_.empty() || end_received_) mark_pending();
}

void Stream::send_continue() {
  // A client that has begun to send needs no invitation any more.
  if (!exchange_.request().expects_continue || body_seen_ || end_received_) return;
  send_informational(100, http::FieldList());
}

// --- Ends.

void Stream::run_pending() {
  if (closed_) return;
  deliver();
  if (closed_ || body_ != Body::kWaiting || !ready_) return;
  body_ = Body::kFlowing;
  progress_ms_ = owner_.now_ms();
  owner_.need_tick(progress_ms_ + send_timeout_ms_);
  nghttp2_session_resume_data(owner_.session(), id_);
}

void Stream::mark_pending() { owner_.add_pending(*this); }

void Stream::on_response_end() {
  response_ended_ = true;
  body_ = Body::kEnded;
  if (spoiled_) {
    drop_waiting();
    return submit_reset(NGHTTP2_PROTOCOL_ERROR);
  }
  if (end_received_) return;
  // An answer before the end of the upload: the rest is not wanted, of which the client is told by
  // a reset without error (RFC 9113 §8.1). Not at once, though: a client that reads both together
  // may throw the answer away with the stream (curl 7.88 does). Most end the stream themselves.
  drop_waiting();
  answered_ms_ = owner_.now_ms();
  owner_.need_tick(answered_ms_ + kEarlyAnswerMs);
}

void Stream::on_closed(std::uint32_t error_code) {
  closed_ = true;
  ListHook<PendingTag>::unlink();
  drop_waiting();
  if (response_ended_) return;
  if (!reset_by_us_) lost_.detail = static_cast<std::int32_t>(error_code);
  lose(lost_);
}

void Stream::on_connection_lost(const Error& error) {
  if (closed_) return;
  closed_ = true;
  ListHook<PendingTag>::unlink();
  waiting_.clear();
  if (!response_ended_) lose(error);
}

void Stream::lose(const Error& error) {
  source_ = nullptr;  // The exchange cancels it.
  owner_.services().loop.cancel(pace_timer_);
  body_ = Body::kEnded;
  if (started_) exchange_.on_transport_lost(error);
}

void Stream::on_flushed(bool sent) {
  // A response whose last bytes the kernel never took was not sent.
  if (response_ended_ && started_ && !exchange_.finished()) {
    if (sent) {
      exchange_.on_sent();
    } else {
      exchange_.on_transport_lost(lost_);
    }
  }
  destroy_later();
}

Milliseconds Stream::deadline_ms() const {
  // A reset that cannot leave yet is the connection's to wait for: it has a limit for that.
  if (closed_ || reset_by_us_) return INT64_MAX;
  if (response_ended_) return end_received_ ? INT64_MAX : answered_ms_ + kEarlyAnswerMs;
  Milliseconds deadline = INT64_MAX;
  // The library would frame more, but the peer gives no window.
  const bool flowing = body_ == Body::kFlowing || (body_ == Body::kBlocked && ready_);
  if (flowing) deadline = progress_ms_ + send_timeout_ms_;
  if (granted_ > 0 && waiting_.empty() && !end_received_) {
    deadline = std::min(
        deadline, received_ms_ + exchange_.settings<http::CoreSettings>().client_body_timeout);
  }
  return deadline;
}

void Stream::on_deadline() {
  if (response_ended_) {
    reset_by_us_ = true;
    return submit_reset(NGHTTP2_NO_ERROR);
  }
  const bool response = body_ == Body::kFlowing || (body_ == Body::kBlocked && ready_);
  const Milliseconds now = owner_.now_ms();
  exchange_.log(LogLevel::kInfo, 0, "client timed out");
  if (response && now >= progress_ms_ + send_timeout_ms_) {
    reset(Error{Code::kTimeout, Party::kClient, 0, "sending a response"});
    return;
  }
  granted_ = 0;
  end_delivered_ = true;
  spoiled_ = true;
  exchange_.body().on_error(Error{Code::kTimeout, Party::kClient, 408, "reading a request body"});
}

void Stream::submit_reset(std::uint32_t error_code) {
  if (closed_) return;
  nghttp2_submit_rst_stream(owner_.session(), NGHTTP2_FLAG_NONE, id_, error_code);
  owner_.post();
}

void Stream::reset(const Error& error) {
  if (closed_ || response_ended_ || reset_by_us_) return;
  lost_ = error;
  reset_by_us_ = true;
  submit_reset(error.code == Code::kCancelled || error.code == Code::kTimeout
                   ? NGHTTP2_CANCEL
                   : NGHTTP2_INTERNAL_ERROR);
}

const http::ConnectionInfo& Stream::connection() const { return owner_.info(); }

}  // namespace corehttpd::h2
