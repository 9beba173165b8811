// The connection's way out: frames from the library into the output queue, the queue into one
// gathered send at a time.
#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"
#include "proto/h2/callbacks.h"
#include "proto/h2/connection.h"

namespace corehttpd::h2 {

Connection::Frame Connection::frame_;

void Connection::pump() {
  // Framing waits for the send under way: what leaves next is then chosen by what has become urgent
  // meanwhile.
  if (send_.pending() || state_ >= State::kLingering) return;
  if (session_ != nullptr) {
    if (const int error = fill_output(); error != 0) fail(error);
  }
  if (!output_.empty() && !close_asked_) send();
}

bool Connection::output_full() const {
  return output_.bytes() >= kOutputMax || output_.segments() >= io::Loop::kVectorsMax;
}

// Sends our SETTINGS. When a client that has acknowledged a limit on streams exceeds it, the
// library ends the connection; RFC 9113 §5.1.2 has the stream refused, on_begin_headers() does. So
// the library knows of no limit, and the first value of its first frame is made ours. False: out of
// memory.
bool Connection::announce() {
  const std::uint8_t* bytes = nullptr;
  const ssize_t count = nghttp2_session_mem_send(session(), &bytes);
  std::array<std::uint8_t, 64> frame;
  constexpr std::size_t kValueAt = kFrameHeaderBytes + 2;
  if (count < 0 || static_cast<std::size_t>(count) > frame.size()) return false;
  CORE_CHECK(static_cast<std::size_t>(count) >= kValueAt + 4 && bytes[3] == NGHTTP2_SETTINGS);
  std::copy_n(bytes, count, frame.begin());
  for (int i = 0; i < 4; ++i) {
    frame[kValueAt + i] =
        static_cast<std::uint8_t>(h2_settings_.max_concurrent_streams >> (24 - 8 * i));
  }
  return output_.append_copy(std::as_bytes(std::span(frame).first(count)));
}

// Yields 0 or the library's error code.
int Connection::fill_output() {
  while (!output_full()) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t count = nghttp2_session_mem_send(session(), &bytes);
    if (count < 0) return static_cast<int>(count);
    // Nothing to frame; or DATA frames have filled the output, which the loop's condition sees.
    if (count == 0 && !output_full()) break;
    if (!output_.append_copy(
            {reinterpret_cast<const std::byte*>(bytes), static_cast<std::size_t>(count)})) {
      return NGHTTP2_ERR_NOMEM;
    }
  }
  return 0;
}

void Connection::set_frame_segments(std::size_t count) {
  for (std::size_t i = count; i < frame_.count; ++i) frame_.segments[i] = Segment();
  frame_.count = count;
}

// A DATA frame whose payload pull() has put into frame_.
int Connection::on_data_frame(const std::uint8_t* header, std::size_t length) {
  bool ok = output_.append_copy({reinterpret_cast<const std::byte*>(header), kFrameHeaderBytes});
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < frame_.count; ++i) {
    bytes += frame_.segments[i].length();
    ok = ok && output_.append(std::move(frame_.segments[i]));
  }
  set_frame_segments(0);
  // A frame that says one length and carries another would make the peer read payload as frames.
  if (!ok || bytes != length) return NGHTTP2_ERR_CALLBACK_FAILURE;
  return output_full() ? NGHTTP2_ERR_PAUSE : 0;
}

int Connection::on_frame_sent(const nghttp2_frame& frame) {
  auto* stream =
      static_cast<Stream*>(nghttp2_session_get_stream_user_data(session(), frame.hd.stream_id));
  switch (frame.hd.type) {
    case NGHTTP2_DATA:
      control_.give_back(4);  // Honest readers answer DATA with WINDOW_UPDATE.
      if (stream != nullptr) stream->on_data_sent(frame.hd.length);
      break;
    case NGHTTP2_HEADERS:
      if (stream != nullptr) stream->on_head_sent(frame.hd.length + kFrameHeaderBytes);
      break;
    case NGHTTP2_RST_STREAM:
      forgive_late();
      // Resets that the peer provoked cost it as much as those that it sends.
      if (stream == nullptr || !stream->reset_by_us()) {
        return abuse(resets_, 1) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
      }
      return 0;
    default:
      return 0;
  }
  if (stream != nullptr && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
    resets_.give_back(1);
    stream->on_response_end();
  }
  return 0;
}

void Connection::send() {
  std::array<iovec, io::Loop::kVectorsMax> vectors;
  const std::size_t count = output_.gather(vectors);
  send_since_ms_ = now_ms();
  need_tick(send_since_ms_ + settings_.send_timeout);
  const std::span<const iovec> gathered = std::span(vectors).first(count);
  const bool more = output_.segments() > count;
  if (tls_ != nullptr) return tls_->stream.send(gathered, more, send_);
  services_.loop.send(fd_, gathered, more, send_);
}

void Connection::on_sent(int result) {
  post();
  if (state_ == State::kClosed) return;
  if (result == -EINTR || result == -EAGAIN) return;
  if (result <= 0) {
    peer_gone_ = true;
    lost_ = error_from_errno(result == 0 ? EPIPE : -result, "send()");
    lost_.party = Party::kClient;
    return;
  }
  output_.consume(static_cast<std::uint64_t>(result));
}

// Responses whose last byte the kernel has taken.
void Connection::retire_streams() {
  while (Stream* stream = finishing_.first()) {
    if (stream->end_position() > output_.consumed()) break;
    finishing_.pop_front();
    stream->on_flushed(true);
  }
}

}  // namespace corehttpd::h2
