#include "corehttpd/http/request_body.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "corehttpd/base/check.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"
#include "http/temp_file.h"

namespace corehttpd::http {

// A block of the body; its reference goes when the part does, with the arena, or when the body
// moves to a file.
struct RequestBody::Part {
  BlockRef block;
  std::size_t used = 0;
  Part* next = nullptr;

  std::span<const std::byte> bytes() const { return {block->data(), used}; }
  std::size_t room() const { return block->capacity() - used; }
};

// Pulls the stored body. Several may exist at once and one after another: they only read.
class RequestBodyReader final : public BodySource {
 public:
  RequestBodyReader(RequestBody& body, BlockPool& blocks)
      : body_(body), blocks_(blocks), part_(body.first_), left_(body.size_) {}

  Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max, Forms forms) override {
    if (left_ == 0) return ReadOutcome{0, Next::kEnd};
    const std::uint64_t wanted = std::min<std::uint64_t>({bytes_max, left_, Segment::kLengthMax});
    if (part_ != nullptr) return read_parts(out, wanted);
    if (!body_.file_) return fail(Code::kInternal, "reading a body that is gone");
    if (forms == Forms::kFiles) {
      out[0] = Segment::from_file(body_.file_, offset_, wanted);
      return advance(1, wanted);
    }
    // The file was written moments ago and is read from the page cache.
    BlockRef block = blocks_.take();
    if (!block) return fail(Code::kUnavailable, "reading the request body");
    const std::size_t length = std::min<std::uint64_t>(wanted, block->capacity());
    CORE_TRY_VOID(read_exactly(body_.file_->fd(), {block->data(), length}, offset_));
    out[0] = Segment::from_block(std::move(block), 0, length);
    return advance(1, length);
  }

 private:
  ReadOutcome advance(std::uint32_t segments, std::uint64_t bytes) {
    offset_ += bytes;
    left_ -= bytes;
    return {segments, left_ == 0 ? Next::kEnd : Next::kMore};
  }
  ReadOutcome read_parts(std::span<Segment> out, std::uint64_t wanted) {
    std::uint32_t count = 0;
    std::uint64_t total = 0;
    while (count < out.size() && total < wanted) {
      const std::size_t length = std::min<std::uint64_t>(part_->used - at_, wanted - total);
      out[count++] = Segment::from_block(part_->block, at_, length);
      total += length;
      at_ += length;
      if (at_ < part_->used) continue;
      part_ = part_->next;
      at_ = 0;
    }
    return advance(count, total);
  }

  RequestBody& body_;
  BlockPool& blocks_;
  RequestBody::Part* part_;
  std::size_t at_ = 0;  // Within part_.
  std::uint64_t offset_ = 0;
  std::uint64_t left_;
};

RequestBody::~RequestBody() {
  if (remove_file_ && !file_name_.empty()) ::unlink(file_name_.data());
}

void RequestBody::begin() {
  if (state_ == State::kUnread)
    state_ = exchange_.request().body_expected ? State::kReading : State::kComplete;
}

void RequestBody::buffer(Waiter& waiter) {
  CORE_CHECK(waiter_ == nullptr);
  begin();
  switch (state_) {
    case State::kComplete:
      return gone() ? fail_at_once(waiter) : waiter.on_body(0);
    case State::kReading:
      waiter_ = &waiter;
      return grant();
    case State::kFailed:
    case State::kDiscarded:
    case State::kStreaming:
      return fail_at_once(waiter);
    case State::kUnread:
      break;
  }
  CORE_CHECK(false);
}

void RequestBody::fail_at_once(Waiter& waiter) {
  if (exchange_.error_status() != 0 &&
      state_ != State::kStreaming) {  // An error page does without the body.
    drop_parts();
    file_ = FileRef();
    size_ = 0;
    return waiter.on_body(0);
  }
  // What was streamed or discarded can't be had again.
  waiter.on_body(state_ == State::kFailed ? failed_status_ : 500);
}

void RequestBody::stream(BodySink& sink) {
  begin();
  if ((state_ != State::kReading && state_ != State::kComplete) || gone()) {
    const std::uint16_t status = failed_status_ == 0 ? 500 : failed_status_;
    return sink.on_error(
        Error{Code::kMalformed, Party::kClient, status, "streaming a body that is gone"});
  }
  waiter_ = nullptr;
  sink_ = &sink;
  if (state_ == State::kReading) state_ = State::kStreaming;
  if (!replay()) return;
  drop_parts();
  file_ = FileRef();
  if (state_ == State::kComplete) {
    if (BodySink* receiver = std::exchange(sink_, nullptr)) receiver->on_data({}, true);
  }
}

// Hands what is stored to the sink. False if that failed, of which the sink was told.
bool RequestBody::replay() {
  if (size_ == 0) return true;
  RequestBodyReader reader(*this, exchange_.services().blocks);
  while (sink_ != nullptr) {
    Segment segment;
    const auto outcome = reader.read({&segment, 1}, BlockPool::kBlockBytes, Forms::kMemory);
    if (!outcome) {
      finish(500);
      return false;
    }
    if (outcome->segments != 0) sink_->on_data({segment.bytes(), segment.length()}, false);
    if (outcome->next == Next::kEnd) break;
  }
  return true;
}

void RequestBody::discard() {
  if (state_ == State::kUnread && !exchange_.request().body_expected) {
    state_ = State::kComplete;
  } else if (state_ == State::kUnread || state_ == State::kReading || state_ == State::kStreaming) {
    state_ = State::kDiscarded;
    waiter_ = nullptr;
    sink_ = nullptr;
    drop_parts();
  }
}

BodySource* RequestBody::reader(Arena& arena) {
  return arena.make<RequestBodyReader>(*this, exchange_.services().blocks);
}

std::string_view RequestBody::text(Arena& arena) const {
  if (state_ != State::kComplete || first_ == nullptr) return {};
  const auto view = [](const Part& part) {
    const auto bytes = part.bytes();
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (first_->next == nullptr) return view(*first_);
  char* to = static_cast<char*>(arena.allocate(size_, 1));
  std::size_t at = 0;
  for (const Part* part = first_; part != nullptr; part = part->next)
    at += view(*part).copy(to + at, part->used);
  return {to, at};
}

void RequestBody::on_data(std::span<const std::byte> bytes, bool last) {
  begin();
  if (state_ != State::kReading && state_ != State::kStreaming)
    return;  // What still arrives after a failure is of no use.
  credit_ -= std::min<std::uint64_t>(credit_, bytes.size());
  if (over_limit(bytes.size())) return finish(413);
  if (state_ == State::kStreaming) {
    size_ += bytes.size();
    BodySink* sink = sink_;
    if (last) {
      state_ = State::kComplete;
      sink_ = nullptr;
    }
    if (sink != nullptr) sink->on_data(bytes, last);
    return;
  }
  if (!bytes.empty() && !store(bytes)) return finish(500);
  if (last) return finish(0);
  grant();
}

void RequestBody::on_error(const Error& error) {
  if (state_ != State::kReading && state_ != State::kStreaming && state_ != State::kUnread) return;
  std::uint16_t status = 400;
  if (error.detail >= 400 && error.detail <= 599 && error.code != Code::kSystem) {
    status = static_cast<std::uint16_t>(error.detail);
  } else if (error.code == Code::kTimeout) {
    status = 408;
  } else if (error.code == Code::kTooLarge) {
    status = 413;
  }
  finish(status);
}

// The body is complete, or has failed with status.
void RequestBody::finish(std::uint16_t status) {
  state_ = status == 0 ? State::kComplete : State::kFailed;
  failed_status_ = status;
  Waiter* waiter = std::exchange(waiter_, nullptr);
  BodySink* sink = std::exchange(sink_, nullptr);
  if (sink != nullptr && status != 0) {
    sink->on_error(Error{status == 413 ? Code::kTooLarge : Code::kMalformed, Party::kClient, status,
                         "reading the request body"});
  }
  if (waiter != nullptr) waiter->on_body(status);
}

// Tops the transport's credit up when half of it is used, so that an upload neither stalls nor
// costs a call per read.
void RequestBody::grant() {
  if (waiter_ == nullptr || state_ != State::kReading || credit_ > kWindowBytes / 2) return;
  std::uint64_t bytes = kWindowBytes - credit_;
  if (const auto length = exchange_.request().content_length; length) {
    const std::uint64_t expected = size_ + credit_;
    bytes = std::min(bytes, *length > expected ? *length - expected : 0);
  }
  if (bytes == 0) return;
  credit_ += bytes;
  exchange_.transport().grant(bytes);
}

// A length that was announced has been judged before; this is for chunked bodies and streams
// without one.
bool RequestBody::over_limit(std::size_t more) {
  const std::uint64_t limit = exchange_.settings<CoreSettings>().client_max_body_size;
  if (limit == 0 || more <= limit - std::min(limit, size_)) return false;
  if (exchange_.request().content_length) return false;
  exchange_.log(
      LogLevel::kError, 0,
      "client intended to send too large chunked body: {}+{} bytes (client_max_body_size {})",
      size_, more, limit);
  return true;
}

bool RequestBody::store(std::span<const std::byte> bytes) {
  const CoreSettings& settings = exchange_.settings<CoreSettings>();
  if (!file_) {
    const bool file_only = settings.client_body_in_file_only != CoreSettings::BodyInFile::kOff;
    const std::uint64_t expected =
        std::max(exchange_.request().content_length.value_or(0), size_ + bytes.size());
    if (!file_only && expected <= settings.client_body_buffer_size && keep_in_memory(bytes))
      return true;
    if (!no_file_ && !spill()) return false;
    // Without a directory for files (not root, not installed) memory has to do, within the worker's
    // budget of blocks.
    if (no_file_) return keep_in_memory(bytes);
  }
  if (!write_file(bytes)) return false;
  size_ += bytes.size();
  return true;
}

// False if the worker's blocks are spent: a file is the next best place then. Nothing was taken in
// that case.
bool RequestBody::keep_in_memory(std::span<const std::byte> bytes) {
  std::size_t room = last_ == nullptr ? 0 : last_->room();
  for (Part* tail = last_; room < bytes.size(); room += tail->room()) {
    tail = add_part(tail, bytes.size() - room);
    if (tail == nullptr) return false;
  }
  size_ += bytes.size();
  if (last_ == nullptr) last_ = first_;
  for (;;) {
    const std::size_t length = std::min(last_->room(), bytes.size());
    std::memcpy(last_->block->data() + last_->used, bytes.data(), length);
    last_->used += length;
    bytes = bytes.subspan(length);
    if (bytes.empty()) return true;
    last_ = last_->next;
  }
}

// A further part after tail. bytes_wanted is what it is needed for at least.
RequestBody::Part* RequestBody::add_part(Part* tail, std::size_t bytes_wanted) {
  const CoreSettings& settings = exchange_.settings<CoreSettings>();
  BlockRef block;
  if (settings.client_body_in_single_buffer && first_ == nullptr) {
    const std::uint64_t length =
        exchange_.request().content_length.value_or(settings.client_body_buffer_size);
    block = Block::allocate(
        std::max<std::uint64_t>(std::min(length, settings.client_body_buffer_size), bytes_wanted));
  } else {
    block = exchange_.services().blocks.take();
  }
  if (!block) return nullptr;
  Part* part = exchange_.arena().make<Part>();
  part->block = std::move(block);
  (tail == nullptr ? first_ : tail->next) = part;
  return part;
}

void RequestBody::drop_parts() {
  for (Part* part = first_; part != nullptr; part = part->next) part->block.reset();
  first_ = last_ = nullptr;
}

// Moves what memory holds to a file, which has everything from then on. True with no_file_ set:
// there is no file to be had.
bool RequestBody::spill() {
  if (!open_file()) return no_file_;
  for (Part* part = first_; part != nullptr; part = part->next) {
    if (part->used != 0 && !write_file(part->bytes())) return false;
  }
  drop_parts();
  return true;
}

bool RequestBody::open_file() {
  const CoreSettings& settings = exchange_.settings<CoreSettings>();
  const std::string_view directory = settings.client_body_temp_path.empty()
                                         ? exchange_.services().body_temp_path
                                         : settings.client_body_temp_path;
  const bool named = settings.client_body_in_file_only != CoreSettings::BodyInFile::kOff;
  auto file = named ? open_named_file(exchange_.arena(), directory,
                                      settings.client_body_temp_levels, file_name_)
                    : open_nameless_file(directory);
  if (!file) {
    exchange_.log(LogLevel::kCrit, file.error().detail, "{} \"{}\" failed", file.error().context,
                  directory);
    no_file_ = !named && settings.client_body_temp_path.empty();
    return false;
  }
  file_ = *std::move(file);
  remove_file_ = settings.client_body_in_file_only == CoreSettings::BodyInFile::kClean;
  exchange_.log(named ? LogLevel::kNotice : LogLevel::kWarn, 0,
                "a client request body is buffered to a temporary file {}",
                named ? file_name_ : directory);
  return true;
}

// Written at once: this goes to the page cache, in pieces of at most what one read of a socket
// brought.
bool RequestBody::write_file(std::span<const std::byte> bytes) {
  const auto written = append(file_->fd(), bytes);
  if (written) return true;
  exchange_.log(LogLevel::kCrit, written.error().detail,
                "{} to a temporary file for a request body failed", written.error().context);
  return false;
}

}  // namespace corehttpd::http
