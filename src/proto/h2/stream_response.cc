// The response half of a stream: its head, and its body pulled frame by frame.
#include <algorithm>

#include "proto/h2/callbacks.h"
#include "proto/h2/connection.h"
#include "proto/h2/response.h"
#include "proto/h2/stream.h"

namespace corehttpd::h2 {
namespace {

// A source that says kMore and gives nothing is asked again this often before others get their
// turn.
constexpr int kEmptyReadsMax = 8;

}  // namespace

void Stream::send_informational(std::uint16_t status, const http::FieldList& fields) {
  if (closed_ || head_submitted_ || reset_by_us_) return;
  const NameValues values = encode_informational(exchange_.arena(), status, fields);
  nghttp2_submit_headers(owner_.session(), NGHTTP2_FLAG_NONE, id_, nullptr, values.begin(),
                         values.size(), nullptr);
  owner_.post();
}

void Stream::send_head(const http::ResponseHead& head, http::BodySource* body) {
  if (closed_ || reset_by_us_) {
    if (body != nullptr) body->cancel();
    return;
  }
  head_submitted_ = true;
  if (body != nullptr && head.content_length == 0) {
    body->cancel();
    body = nullptr;
  }
  source_ = body;
  if (body != nullptr) {
    body_ = Body::kFlowing;
    has_length_ = head.content_length.has_value();
    if (has_length_) length_left_ = *head.content_length;
  }
  const NameValues values = encode_head(exchange_, head);
  const nghttp2_data_provider provider = {{.ptr = this}, read_data};
  const int result = nghttp2_submit_response(owner_.session(), id_, values.begin(), values.size(),
                                             body == nullptr ? nullptr : &provider);
  if (result != 0)
    return reset(Error{Code::kInternal, Party::kSelf, result, "nghttp2_submit_response()"});
  chunk_bytes_ = exchange_.settings<Settings>().chunk_size;
  send_timeout_ms_ = exchange_.settings<http::CoreSettings>().send_timeout;
  progress_ms_ = owner_.now_ms();
  pacer_.begin(exchange_, progress_ms_);
  if (body != nullptr) owner_.need_tick(progress_ms_ + send_timeout_ms_);
  owner_.post();
}

void Stream::body_ready() {
  ready_ = true;
  // While the library is still asking it finds out by itself.
  if (body_ == Body::kWaiting) mark_pending();
}

ssize_t Stream::pull(std::size_t length, std::uint32_t* data_flags) {
  owner_.set_frame_segments(0);
  if (source_ == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (body_ == Body::kBlocked) {
    body_ = ready_ ? Body::kFlowing : Body::kWaiting;
    if (!ready_) return NGHTTP2_ERR_DEFERRED;
  }
  length = std::min<std::size_t>(length, chunk_bytes_);
  if (hold_back(length)) return NGHTTP2_ERR_DEFERRED;
  const Result<std::size_t> bytes = read_frame(length);
  if (bytes) pacer_.take(*bytes);
  if (!bytes) return break_off(bytes.error());
  if (!source_ended_) {
    if (*bytes != 0) {
      *data_flags |= NGHTTP2_DATA_FLAG_NO_COPY;
      return static_cast<ssize_t>(*bytes);
    }
    body_ = Body::kWaiting;
    if (ready_) mark_pending();
    return NGHTTP2_ERR_DEFERRED;
  }
  if (has_length_ && length_left_ != 0) {
    exchange_.log(LogLevel::kError, 0, "response body is {} bytes shorter than its length",
                  length_left_);
    return break_off(
        Error{Code::kMalformed, Party::kOrigin, 0, "body shorter than Content-Length"});
  }
  body_ = Body::kEnded;
  *data_flags |= NGHTTP2_DATA_FLAG_NO_COPY | NGHTTP2_DATA_FLAG_EOF;
  add_trailers(data_flags);
  return static_cast<ssize_t>(*bytes);
}

// Cuts length to what limit_rate allows now. True if that is nothing: the timer then says when to
// go on.
bool Stream::hold_back(std::size_t& length) {
  if (!pacer_.limited()) return false;
  const Milliseconds now = owner_.now_ms();
  const std::uint64_t wanted = std::min<std::uint64_t>(length, length_left_);
  if (wanted == 0) return false;  // Only the end is left.
  if (const std::uint64_t allowed = pacer_.allowance(wanted, now); allowed != 0) {
    length = static_cast<std::size_t>(allowed);
    return false;
  }
  body_ = Body::kWaiting;
  ready_ = false;
  owner_.services().loop.schedule(pace_timer_, pacer_.wait_ms(wanted, now));
  return true;
}

// Fills one frame from as many reads as it takes. Ends with source_ended_, with body_ kBlocked, or
// with the frame full.
Result<std::size_t> Stream::read_frame(std::size_t length) {
  const std::span<Segment> segments = owner_.frame_segments();
  std::size_t count = 0, total = 0;
  int empty_reads = 0;
  while (total < length && count < segments.size() && !source_ended_) {
    const std::size_t room =
        static_cast<std::size_t>(std::min<std::uint64_t>(length - total, length_left_));
    ready_ = false;
    const http::ReadOutcome outcome =
        CORE_TRY(source_->read(segments.subspan(count), room, http::Forms::kMemory));
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < outcome.segments; ++i) bytes += segments[count + i].length();
    count += outcome.segments;
    total += bytes;
    owner_.set_frame_segments(count);
    if (has_length_) length_left_ -= bytes;
    source_ended_ = outcome.next == http::Next::kEnd;
    // body_ready() may have been called while it was read.
    const bool blocked = outcome.next == http::Next::kBlocked && !ready_;
    if (has_length_ && length_left_ == 0 && !source_ended_) {
      // The response is complete for the peer. What the source may have beyond its length is cut;
      // only an end is still asked for, because trailers come with it.
      if (!blocked) peek_end();
      if (!source_ended_) cancel_source();
      break;
    }
    if (blocked) {
      body_ = Body::kBlocked;
      break;
    }
    if (bytes == 0 && ++empty_reads >= kEmptyReadsMax) {
      ready_ = true;
      break;
    }
  }
  return total;
}

void Stream::peek_end() {
  Segment beyond;
  const auto outcome = source_->read({&beyond, 1}, 1, http::Forms::kMemory);
  source_ended_ = outcome && outcome->next == http::Next::kEnd && outcome->segments == 0;
}

void Stream::cancel_source() {
  source_->cancel();
  source_ = nullptr;
  source_ended_ = true;
}

// Ends the stream without a clean end: the library resets it with INTERNAL_ERROR.
ssize_t Stream::break_off(const Error& error) {
  owner_.set_frame_segments(0);
  lost_ = error;
  reset_by_us_ = true;
  body_ = Body::kEnded;
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

void Stream::add_trailers(std::uint32_t* data_flags) {
  const http::FieldList* trailers = source_ == nullptr ? nullptr : source_->trailers();
  if (trailers == nullptr) return;
  const NameValues values = encode_trailers(exchange_.arena(), *trailers);
  if (values.empty()) return;
  if (nghttp2_submit_trailer(owner_.session(), id_, values.begin(), values.size()) == 0) {
    *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  }
}

void Stream::on_data_sent(std::size_t payload_bytes) {
  exchange_.add_sent(kFrameHeaderBytes, payload_bytes);
  progress_ms_ = owner_.now_ms();
}

}  // namespace corehttpd::h2
