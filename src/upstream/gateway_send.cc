// The request's way to the origin: the body is buffered or streamed, framed by the codec, sent.
#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"
#include "upstream/gateway_request.h"

namespace corehttpd::upstream {
namespace {

// What the operator may look at.
std::string_view connect_hint(int errno_value) {
  switch (errno_value) {
    case ENOENT:
      return "there is no such socket: does its service run?";
    case ECONNREFUSED:
      return "nobody listens there";
    case EACCES:
      return "the workers' user must be allowed to write to the socket";
    case EAGAIN:
      return "its backlog is full";
    default:
      return {};
  }
}

// Bytes of a streamed upload that are in our hands at one time.
constexpr std::size_t kUploadWindow = 64 * 1024;
// The most of a file that is taken from the reader at once.
constexpr std::size_t kPieceMax = 512 * 1024;

}  // namespace

void GatewayRequest::on_body(std::uint16_t status) {
  if (status != 0) {
    state_ = State::kDone;
    return conclude(http::StepOutcome::fail(status));
  }
  const std::uint64_t bytes = exchange_->body().size();
  http::RequestHead& request = exchange_->request();
  // Now the length of a chunked body or of a stream is known: $content_length, and with it
  // CONTENT_LENGTH, says what will be sent.
  if (request.body_expected && !request.content_length) request.content_length = bytes;
  if (settings().pass_request_body) body_bytes_ = bytes;
  begin_attempt();
}

void GatewayRequest::on_connected() {
  log(LogLevel::kDebug, "upstream connected");
  if (attempt_ != nullptr) attempt_->connect_ms = now_ms() - attempt_->started_ms;
  state_ = State::kSending;
  codec_ = pass_.protocol->make_codec(codec_storage_.data());
  connection_->queue(head_.share(0, head_.length()));
  // An answer may come before all of the request is sent.
  connection_->start_receiving();
  if (exchange_ != nullptr && (body_bytes_ > 0 || streaming_)) {
    if (!streaming_) {
      body_reader_ = exchange_->body().reader(exchange_->arena());
    } else if (!stream_begun_) {
      stream_begun_ = true;
      // Hands over what has come already, and everything later.
      exchange_->body().stream(*this);
      if (connection_ == nullptr) return;
      if (!upload_complete_) {
        const bool known = exchange_->request().content_length.has_value();
        exchange_->transport().grant(known ? std::min<std::uint64_t>(kUploadWindow, body_bytes_)
                                           : kUploadWindow);
      }
    }
  }
  send_more();
}

void GatewayRequest::on_connect_failed(int errno_value) {
  if (connection_->bind_failed()) {
    log(LogLevel::kCrit, "bind({}) failed {} while connecting to upstream", bind_->to_string(),
        errno_text(errno_value));
    end_attempt();
    return conclude(http::StepOutcome::fail(500));
  }
  if (errno_value == ETIMEDOUT) {
    log(LogLevel::kError, "upstream timed out {} while connecting to upstream{}",
        errno_text(errno_value), about_time("connect_timeout", settings().connect_timeout));
    return attempt_failed(kNextTimeout, 504);
  }
  log(errno_value == ENOENT ? LogLevel::kCrit : LogLevel::kError,
      "connect() to {} failed {} while connecting to upstream{}",
      attempt_ == nullptr ? std::string_view("an origin") : attempt_->address,
      errno_text(errno_value), about_backend(connect_hint(errno_value)));
  attempt_failed(kNextError, 502);
}

// --- A streamed upload.

void GatewayRequest::on_data(std::span<const std::byte> bytes, bool last) {
  if (send_over_ || connection_ == nullptr) return;
  upload_.append(bytes);
  upload_complete_ = last;
  // Within stream() the connection is about to be fed anyway.
  if (state_ == State::kSending && !connection_->sending()) send_more();
}

void GatewayRequest::on_error(const Error& error) {
  upload_complete_ = true;  // No more of it will come.
  if (connection_ == nullptr) return;
  log(LogLevel::kInfo, "client request body broke off while {}", doing());
  end_attempt();
  const std::uint16_t status =
      error.detail >= 400 && error.detail <= 599 ? static_cast<std::uint16_t>(error.detail) : 400;
  if (responded_) {
    spool_.fail(error);
  } else if (!concluded_) {
    conclude(http::StepOutcome::fail(status));
  }
}

// --- Sending.

// Puts the next piece of the body into piece_. False: there is none, at present or at all
// (body_taken_).
bool GatewayRequest::next_piece() {
  if (piece_.length() > 0) return true;
  if (held_next_ < held_body_.size()) {
    piece_ = std::move(held_body_[held_next_++]);
    body_taken_ = held_next_ == held_body_.size();
    return true;
  }
  if (streaming_) {
    if (upload_.empty()) {
      body_taken_ = upload_complete_;
      return false;
    }
    piece_ = upload_.take(kPieceMax);
    upload_credit_due_ += piece_.length();
    body_taken_ = upload_complete_ && upload_.empty();
    return true;
  }
  if (body_reader_ == nullptr) {
    body_taken_ = true;
    return false;
  }
  const auto outcome = body_reader_->read({&piece_, 1}, kPieceMax, http::Forms::kFiles);
  if (!outcome) {
    log(LogLevel::kCrit, "reading the buffered request body failed {} while {}",
        errno_text(outcome.error().detail), doing());
    // Its length was promised: this attempt can't be completed, nor can another.
    end_attempt();
    if (exchange_ != nullptr && !responded_) conclude(http::StepOutcome::fail(500));
    return false;
  }
  if (outcome->next == http::Next::kEnd) {
    body_taken_ = true;
    body_reader_ = nullptr;
  }
  return piece_.length() > 0;
}

void GatewayRequest::send_more() {
  if (send_over_ || end_queued_) return connection_->flush(false);
  // One block holds the frames around all pieces of this batch; segments share it.
  BlockRef frames;
  std::size_t used = 0;
  const auto frame = [&](std::size_t bytes) {
    connection_->queue(Segment::from_block(frames, used, bytes));
    used += bytes;
  };
  while (connection_->queue_room() >= 3 && next_piece()) {
    if (!frames)
      frames = Block::allocate(OriginConnection::kQueueMax * OriginCodec::kFrameBytesMax);
    const std::size_t length = std::min<std::size_t>(piece_.length(), codec_->frame_max());
    frame(codec_->begin_frame(frames->data() + used, length));
    connection_->queue(piece_.share(0, length));
    piece_.remove_prefix(length);
    if (body_taken_ && piece_.length() == 0) break;
  }
  if (connection_ == nullptr) return;  // Reading the body failed.
  if (body_taken_ && piece_.length() == 0) {
    if (!frames) frames = Block::allocate(OriginCodec::kFrameBytesMax);
    frame(codec_->end_body(frames->data() + used));
    end_queued_ = true;
  }
  connection_->flush(!end_queued_ && !streaming_);
}

void GatewayRequest::on_drained() {
  if (upload_credit_due_ > 0 && exchange_ != nullptr && !upload_complete_) {
    exchange_->transport().grant(std::exchange(upload_credit_due_, 0));
  }
  if (end_queued_) return request_sent();
  send_more();
}

void GatewayRequest::request_sent() {
  send_over_ = true;
  if (state_ == State::kSending) {
    state_ = exchange_ == nullptr         ? State::kDraining
             : respond_due_ || responded_ ? State::kReadingBody
                                          : State::kReadingHead;
  }
  arm_read_timer();
}

void GatewayRequest::on_send_failed(int errno_value) {
  if (errno_value == ETIMEDOUT) {
    log(LogLevel::kError, "upstream timed out {} while sending request to upstream{}",
        errno_text(errno_value), about_time("send_timeout", settings().send_timeout));
    return attempt_failed(kNextTimeout, 504);
  }
  // An origin that has answered without reading a big body closes its side; the answer may still be
  // on its way and is worth more than this error (RFC 9112 §9.5). If there is none, the end of the
  // connection will say so at once.
  send_error_ = errno_value;
  request_sent();
}

// Takes the body over from an exchange that is going away, for ignore_client_abort. False: it could
// not be had.
bool GatewayRequest::hold_request_body() {
  if (end_queued_ || send_over_ || body_bytes_ == 0) return true;
  if (body_reader_ == nullptr && (state_ == State::kConnecting || state_ == State::kQueued)) {
    body_reader_ = exchange_->body().reader(exchange_->arena());
  }
  while (body_reader_ != nullptr) {
    Segment segment;
    const auto outcome =
        body_reader_->read({&segment, 1}, Segment::kLengthMax, http::Forms::kFiles);
    if (!outcome) return false;
    if (outcome->segments > 0) held_body_.push_back(std::move(segment));
    if (outcome->next == http::Next::kEnd) body_reader_ = nullptr;
  }
  body_taken_ = held_body_.empty();
  return true;
}

}  // namespace corehttpd::upstream
