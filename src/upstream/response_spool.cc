#include "upstream/response_spool.h"

#include <algorithm>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {
namespace {

// While a block is on its way to the file the origin may go on by this much, so that reading and
// writing overlap.
constexpr std::uint64_t kAheadBytes = 8 * BlockPool::kBlockBytes;

}  // namespace

void ResponseSpool::configure(const Limits& limits, std::optional<std::uint64_t> expected) {
  limits_ = limits;
  expected_ = expected;
  // Nothing will come: the reader need not wait for the origin to say so.
  if (expected_ == 0) state_ = State::kEnded;
}

ResponseSpool::Append ResponseSpool::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Append::kTaken;
  Append result = Append::kTaken;
  if (expected_) {
    const std::uint64_t left = *expected_ - total_;
    if (bytes.size() >= left) {
      result = bytes.size() > left ? Append::kExcess : Append::kComplete;
      bytes = bytes.first(static_cast<std::size_t>(left));
    }
  }
  total_ += bytes.size();
  if (!cancelled_) memory_.append(bytes);
  if (result != Append::kTaken && state_ == State::kOpen) state_ = State::kEnded;
  if (!cancelled_) spill();
  was_full_ = full();
  wake_reader();
  return result;
}

bool ResponseSpool::finish() {
  if (state_ != State::kOpen) return !failed();
  if (expected_ && total_ < *expected_) {
    fail({Code::kClosed, Party::kOrigin, 0, "body shorter than its Content-Length"});
    return false;
  }
  state_ = State::kEnded;
  wake_reader();
  return true;
}

void ResponseSpool::fail(const Error& error) {
  if (state_ != State::kOpen) return;
  state_ = State::kFailed;
  error_ = error;
  wake_reader();
}

bool ResponseSpool::may_spill() const {
  return limits_.file_bytes > 0 && !file_unusable_ && file_end_ < limits_.file_bytes;
}

bool ResponseSpool::full() const {
  if (cancelled_) return false;
  return memory_.bytes() >= limits_.memory_bytes + (may_spill() ? kAheadBytes : 0);
}

// Moves the front of memory to the file while there is more than memory should hold.
void ResponseSpool::spill() {
  if (memory_.bytes() <= limits_.memory_bytes || !may_spill() || writing_ > 0) return;
  if (file_ == nullptr) {
    owner_.on_spool_to_file();
    file_ = SpoolFile::open(loop_, *this, limits_.directory);
    return;
  }
  if (!file_->ready() || file_->writing()) return;
  Segment front = memory_.peek();
  writing_ = front.length();
  writing_consumed_ = 0;
  file_->write(std::move(front), file_end_);
}

void ResponseSpool::on_file_open(int errno_value) {
  if (errno_value != 0) return file_failed("open()", errno_value);
  spill();
}

void ResponseSpool::on_file_written(int errno_value) {
  const std::size_t written = std::exchange(writing_, 0);
  if (errno_value != 0) return file_failed("write()", errno_value);
  // A reader may have taken some of the block from memory; that is then behind the file's unread
  // part.
  memory_.drop(written - writing_consumed_);
  if (file_begin_ == file_end_) {
    file_begin_ = file_end_ + writing_consumed_;
  } else {
    CORE_DCHECK(writing_consumed_ == 0);
  }
  file_end_ += written;
  spill();
  note_room();
  wake_reader();
}

void ResponseSpool::file_failed(const char* operation, int errno_value) {
  file_unusable_ = true;
  owner_.on_spool_file_error(operation, errno_value);
  // What the file already holds stays readable; without any it is of no use.
  if (file_begin_ == file_end_) close_file();
}

void ResponseSpool::close_file() {
  if (file_ != nullptr) std::exchange(file_, nullptr)->release();
  file_begin_ = file_end_ = 0;
  writing_ = writing_consumed_ = 0;
  fetched_ = Segment();
}

Result<http::ReadOutcome> ResponseSpool::read(std::span<Segment> out, std::size_t bytes_max,
                                              http::Forms forms) {
  CORE_DCHECK(!cancelled_ && !delivered_);
  http::ReadOutcome outcome{0, http::Next::kMore};
  bool waiting = false;
  while (outcome.segments < out.size() && bytes_max > 0) {
    Segment& segment = out[outcome.segments];
    if (file_begin_ < file_end_) {
      if (!read_file(segment, bytes_max, forms)) {
        waiting = true;
        break;
      }
    } else if (!memory_.empty()) {
      take_from_memory(segment, bytes_max);
    } else {
      break;
    }
    bytes_max -= segment.length();
    ++outcome.segments;
  }
  if (file_begin_ == file_end_ && file_end_ > 0 && writing_ == 0) {
    // All of the file was handed out. Its space is given back as soon as the transport is done with
    // it; a client that stays slow gets a fresh one, so that an endless response never hits the
    // limit.
    close_file();
  }
  spill();
  note_room();
  const bool drained = !waiting && file_begin_ == file_end_ && memory_.empty();
  if (drained && state_ == State::kFailed && outcome.segments == 0) return std::unexpected(error_);
  if (drained && state_ == State::kEnded) {
    outcome.next = http::Next::kEnd;
    delivered_ = true;
  } else if (waiting || (drained && state_ == State::kOpen)) {
    outcome.next = http::Next::kBlocked;
    blocked_ = true;
  }
  return outcome;
}

void ResponseSpool::take_from_memory(Segment& out, std::size_t bytes_max) {
  const std::size_t in_flight = writing_ - writing_consumed_;
  if (in_flight == 0) {
    out = memory_.take(bytes_max);
    return;
  }
  // The front is being written to the file as well; what is taken here counts as read from there.
  out = memory_.take(std::min(bytes_max, in_flight));
  writing_consumed_ += out.length();
}

bool ResponseSpool::read_file(Segment& out, std::size_t bytes_max, http::Forms forms) {
  if (file_->reading()) return false;
  const std::size_t length = static_cast<std::size_t>(
      std::min<std::uint64_t>({bytes_max, file_end_ - file_begin_, Segment::kLengthMax}));
  if (forms == http::Forms::kFiles && fetched_.length() == 0) {
    out = Segment::from_file(file_->file(), file_begin_, length);
  } else {
    if (fetched_.length() == 0) {
      fetched_ = file_->read_cached(file_begin_, length);
      if (fetched_.length() == 0) file_->read(file_begin_, length);
    }
    if (fetched_.length() == 0) return false;
    const std::size_t now = std::min<std::size_t>(length, fetched_.length());
    out = fetched_.share(0, now);
    fetched_.remove_prefix(now);
  }
  file_begin_ += out.length();
  return true;
}

void ResponseSpool::on_file_read(Segment bytes, int errno_value) {
  if (errno_value == 0) {
    fetched_ = std::move(bytes);
  } else {
    // A hole in the middle of a response: nothing after it may be sent.
    owner_.on_spool_file_error("read()", errno_value);
    state_ = State::kFailed;
    error_ = error_from_errno(errno_value, "reading a temporary file");
    close_file();
    memory_.clear();
    file_unusable_ = true;
  }
  wake_reader();
}

void ResponseSpool::cancel() noexcept {
  if (cancelled_ || delivered_) return;
  cancelled_ = true;
  close_file();
  memory_.clear();
  owner_.on_spool_cancelled();
}

void ResponseSpool::wake_reader() {
  if (cancelled_ || !blocked_) return;
  const bool something = file_begin_ < file_end_ ? fetched_.length() > 0 || !file_->reading()
                                                 : !memory_.empty() || state_ != State::kOpen;
  if (!something) return;
  blocked_ = false;
  owner_.on_spool_ready();
}

void ResponseSpool::note_room() {
  // With a file memory drains by itself; without one half of it must be free, lest the origin is
  // stopped and started again for every block.
  const std::uint64_t low = may_spill() ? limits_.memory_bytes : limits_.memory_bytes / 2;
  if (!was_full_ || memory_.bytes() > low) return;
  was_full_ = false;
  owner_.on_spool_room();
}

}  // namespace corehttpd::upstream
