#include "proto/h1/request.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>

#include "proto/h1/connection.h"

namespace corehttpd::h1 {
namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// Room that a final head and its first piece of body always find, however many interim responses
// came before.
constexpr std::size_t kInterimRoom = 8;
// CRLF, 16 hex digits, CRLF; and the last chunk.
constexpr std::size_t kFrameMax = 2 + 16 + 2 + sizeof("0\r\n\r\n");

}  // namespace

Request::Request(Connection& connection)
    : TurnTask([](TurnTask& task) {
        auto& self = static_cast<Request&>(task);
        self.connection_.context().requests.destroy(self);
      }),
      exchange(connection.context().services, *this, connection.info()),
      connection_(connection),
      pace_timer_(
          [](io::Timer& timer) { static_cast<PaceTimer&>(timer).request.connection_.poke(); },
          *this) {}

const http::ConnectionInfo& Request::connection() const { return connection_.info(); }

void Request::send_informational(std::uint16_t status, const http::FieldList& fields) {
  // HTTP/1.0 knows none, and they are never worth a full queue.
  if (head_queued_ || exchange.request().version != http::Version::k11 ||
      output.room() <= kInterimRoom)
    return;
  if (status == 100) body.continue_due = false;
  const std::size_t bound = HeadWriter::bound(status, fields);
  BlockRef block = Block::allocate(bound);
  char* const begin = reinterpret_cast<char*>(block->data());
  const auto length =
      static_cast<std::size_t>(HeadWriter::write_interim(begin, status, fields) - begin);
  output.push(Segment::from_block(std::move(block), 0, length));
  head_unsent_ += length;
  connection_.poke();
}

void Request::grant(std::size_t bytes) {
  if (body.done) return;
  body.credit += std::min<std::uint64_t>(bytes, UINT64_MAX - body.credit);
  if (bytes != 0 && !std::exchange(body.granted, true) && body.continue_due && !head_queued_) {
    body.continue_due = false;
    // Whoever has begun to send does not wait for it (RFC 9110 §10.1.1).
    if (!connection_.has_input()) {
      output.push(Segment::from_static(kContinue));
      head_unsent_ += kContinue.size();
    }
  }
  connection_.poke();
}

void Request::body_ready() {
  if (source_ == nullptr) return;
  blocked_ = false;
  connection_.poke();
}

void Request::reset(const Error& error) {
  if (!failure) failure = error;
  connection_.poke();
}

void Request::break_body(const Error& error) {
  if (body.done) return;
  body.done = true;
  keep_alive = false;
  if (!discarding()) exchange.body().on_error(error);
}

void Request::send_head(const http::ResponseHead& head, http::BodySource* source) {
  const auto& settings = exchange.settings<http::CoreSettings>();
  source_ = source;
  files_ = settings.sendfile && !connection_.over_tls();
  keep_alive = keep_alive && connection_.may_persist(exchange, settings) && !head.close_connection;
  // The client that waits for 100 and gets a final answer may send its body or not: what follows
  // could be either.
  if (!body.done && body.continue_due && !connection_.has_input()) keep_alive = false;
  connection_.remember(settings);
  choose_framing(head, settings);
  pacer_.begin(exchange, exchange.services().clock.now_ms());
  queue_head(head, settings);
  if (framing_ == ResponseFraming::kNone) {
    if (source_ != nullptr) source_->cancel();
    source_ = nullptr;
    produced = true;
  }
  connection_.poke();
}

// RFC 9112 §6.
void Request::choose_framing(const http::ResponseHead& head, const http::CoreSettings& settings) {
  if (source_ == nullptr || exchange.request().method == http::Method::kHead ||
      http::never_has_body(head.status)) {
    framing_ = ResponseFraming::kNone;
  } else if (head.content_length) {
    framing_ = ResponseFraming::kLength;
    length_left_ = *head.content_length;
  } else if (exchange.request().version == http::Version::k11 &&
             settings.chunked_transfer_encoding) {
    framing_ = ResponseFraming::kChunked;
  } else {
    framing_ = ResponseFraming::kClose;
    keep_alive = false;
  }
}

void Request::queue_head(const http::ResponseHead& head, const http::CoreSettings& settings) {
  const HeadFraming framing{framing_ == ResponseFraming::kChunked, keep_alive,
                            settings.keepalive_header_timeout};
  const std::size_t bound = HeadWriter::bound(head);
  HeadWriter& writer = connection_.context().writer;
  std::size_t length = 0;
  if (bound <= head_.size()) {
    length = static_cast<std::size_t>(
        writer.write(head_.data(), head, framing, settings.server_tokens) - head_.data());
    output.push(Segment::from_static({head_.data(), length}));
  } else {
    BlockRef block = Block::allocate(bound);
    char* const begin = reinterpret_cast<char*>(block->data());
    length = static_cast<std::size_t>(writer.write(begin, head, framing, settings.server_tokens) -
                                      begin);
    output.push(Segment::from_block(std::move(block), 0, length));
  }
  head_queued_ = true;
  head_unsent_ += length;
}

void Request::pull() {
  // Beside the segments of one read: a chunk's size, and its end or the last chunk.
  while (source_ != nullptr && !blocked_ && !failure && output.memory_bytes() < kOutputHigh &&
         output.room() >= kReadSegmentsMax + 2) {
    if (!read_once()) return;
  }
}

bool Request::read_once() {
  std::array<Segment, kReadSegmentsMax> segments;
  std::size_t bytes_max = kReadBytesMax;
  if (framing_ == ResponseFraming::kLength) {
    // When all is there one more byte is asked for, so that the source can say that it has ended.
    bytes_max = static_cast<std::size_t>(std::clamp<std::uint64_t>(length_left_, 1, kReadBytesMax));
  }
  const bool at_end = framing_ == ResponseFraming::kLength && length_left_ == 0;
  if (pacer_.limited() && !at_end && (bytes_max = paced(bytes_max)) == 0) return false;
  const auto outcome =
      source_->read(segments, bytes_max, files_ ? http::Forms::kFiles : http::Forms::kMemory);
  if (!outcome) {
    source_ = nullptr;
    failure = outcome.error();
    return false;
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < outcome->segments; ++i) bytes += segments[i].length();
  pacer_.take(bytes);
  const bool complete = framing_ == ResponseFraming::kLength && length_left_ == 0;
  if (complete && outcome->next != http::Next::kEnd) {
    // Longer than announced, or dawdling over its end: the client has what it was promised (FastCGI
    // bodies are cut so).
    source_->cancel();
    source_ = nullptr;
    produced = true;
    return false;
  }
  if (!complete)
    queue_body({segments.data(), outcome->segments}, bytes, outcome->next == http::Next::kEnd);
  if (outcome->next == http::Next::kMore) return true;
  if (outcome->next == http::Next::kBlocked && chunk_open_) close_chunk();
  end_body(outcome->next);
  return false;
}

// What limit_rate leaves of wanted; 0: nothing now, and the timer is set.
std::size_t Request::paced(std::size_t wanted) {
  const Milliseconds now = exchange.services().clock.now_ms();
  const std::uint64_t allowed = pacer_.allowance(wanted, now);
  if (allowed == 0 && !pace_timer_.scheduled()) {
    if (framing_ == ResponseFraming::kChunked && chunk_open_) close_chunk();
    exchange.services().loop.schedule(pace_timer_, pacer_.wait_ms(wanted, now));
  }
  return static_cast<std::size_t>(allowed);
}

void Request::queue_body(std::span<Segment> segments, std::size_t bytes, bool last) {
  if (framing_ == ResponseFraming::kLength) length_left_ -= bytes;
  if (framing_ == ResponseFraming::kChunked && bytes != 0) output.push(chunk_frame(bytes, false));
  for (Segment& segment : segments) output.push(std::move(segment));
  if (framing_ != ResponseFraming::kChunked || !last) return;
  Segment end = chunk_frame(0, true);
  const http::FieldList* trailers = source_->trailers();
  if (trailers == nullptr || trailers->empty()) return output.push(std::move(end));
  // The frame ends with the empty line; trailers go before it.
  const std::string_view frame = end.view();
  const std::size_t bound = frame.size() + HeadWriter::bound(0, *trailers);
  BlockRef block = Block::allocate(bound);
  char* const begin = reinterpret_cast<char*>(block->data());
  std::memcpy(begin, frame.data(), frame.size() - 2);
  char* const stop = HeadWriter::write_trailers(begin + frame.size() - 2, *trailers);
  output.push(Segment::from_block(std::move(block), 0, static_cast<std::size_t>(stop - begin)));
}

// The bytes between two chunks: the end of the one before, the size of the next. last: the last
// chunk and the empty line.
Segment Request::chunk_frame(std::size_t bytes, bool last) {
  if (!frames_ || frames_->capacity() - frames_used_ < kFrameMax) {
    frames_ = Block::allocate(512);
    frames_used_ = 0;
  }
  char* const begin = reinterpret_cast<char*>(frames_->data()) + frames_used_;
  char* to = begin;
  if (std::exchange(chunk_open_, true)) to = static_cast<char*>(std::memcpy(to, "\r\n", 2)) + 2;
  if (last) {
    to = static_cast<char*>(std::memcpy(to, "0\r\n\r\n", 5)) + 5;
  } else {
    to = std::to_chars(to, to + 16, bytes, 16).ptr;
    to = static_cast<char*>(std::memcpy(to, "\r\n", 2)) + 2;
  }
  const auto length = static_cast<std::size_t>(to - begin);
  Segment segment = Segment::from_block(frames_, frames_used_, length);
  frames_used_ += static_cast<std::uint32_t>(length);
  return segment;
}

// Nothing follows at once: a client that hands a chunk on when it has seen its end must not wait
// for the next.
void Request::close_chunk() {
  output.push(Segment::from_static("\r\n"));
  chunk_open_ = false;
}

void Request::end_body(http::Next next) {
  if (next == http::Next::kBlocked) {
    blocked_ = true;
    return;
  }
  source_ = nullptr;
  produced = true;
  // Shorter than announced: only the connection's end can tell the client so.
  if (framing_ == ResponseFraming::kLength && length_left_ != 0) keep_alive = false;
}

std::size_t Request::take_sent(std::size_t bytes) {
  const std::size_t left = output.consume(bytes);
  const std::uint64_t taken = bytes - left;
  const std::uint64_t head = std::min(taken, head_unsent_);
  head_unsent_ -= head;
  if (!logged) exchange.add_sent(head, taken - head);
  return left;
}

RequestPool::~RequestPool() {
  while (free_ != nullptr) std::free(std::exchange(free_, free_->next));
}

Request& RequestPool::make(Connection& connection) {
  void* memory = free_;
  if (memory != nullptr) {
    free_ = free_->next;
    --free_count_;
  } else {
    static_assert(alignof(Request) <= alignof(std::max_align_t));
    memory = std::malloc(sizeof(Request));
    CORE_CHECK(memory != nullptr);
  }
  return *new (memory) Request(connection);
}

void RequestPool::destroy(Request& request) {
  request.~Request();
  if (free_count_ >= kFreeKept) return std::free(&request);
  free_ = new (&request) Free{free_};
  ++free_count_;
}

}  // namespace corehttpd::h1
