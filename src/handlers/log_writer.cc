#include "handlers/log_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "corehttpd/base/check.h"
#include "corehttpd/base/log.h"
#include "handlers/access_log_gzip.h"

namespace corehttpd::handlers {
namespace {

std::uint64_t count_lines(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// What a single large outage made a string grow to is given back.
void clear_generously(std::string& text) {
  constexpr std::size_t kKeptBytes = 256 * 1024;
  if (text.capacity() > kKeptBytes) {
    text = std::string();
  } else {
    text.clear();
  }
}

}  // namespace

LogWriter::LogWriter(io::Loop& loop, std::string_view path, int fd, const LogWriterOptions& options,
                     Idle idle)
    : loop_(loop),
      path_(path),
      options_(options),
      pending_max_(std::max<std::size_t>(kPendingBytesMax, 2 * options.buffer_bytes)),
      idle_(idle),
      fd_(fd),
      turn_task_([](TurnTask& t) { static_cast<Task&>(t).owner.submit(); }, *this),
      flush_timer_([](io::Timer& t) { static_cast<Timer&>(t).owner.submit(); }, *this),
      retry_timer_([](io::Timer& t) { static_cast<Timer&>(t).owner.advance(); }, *this),
      write_([](io::Operation& o, int r) { static_cast<Write&>(o).owner.on_written(r); }, *this) {}

LogWriter::~LogWriter() {
  CORE_CHECK(idle());
  if (next_fd_ >= 0) ::close(next_fd_);
}

void LogWriter::line_done() {
  Milliseconds wait = options_.flush;  // 0: until there is enough.
  std::size_t enough = options_.buffer_bytes;
  if (enough == 0) {
    const Milliseconds since = loop_.clock().now_ms() - begun_ms_;
    wait = kPause - since;
    enough = since < kPause ? kPauseBytesMax : 0;
  }
  if (collecting_.size() >= enough) {
    loop_.turn().post(turn_task_);
  } else if (wait > 0 && !flush_timer_.scheduled()) {
    loop_.schedule(flush_timer_, wait);
  }
}

void LogWriter::lose_line() {
  ++lost_;
  if (!std::exchange(failing_, true)) {
    log(nullptr, LogLevel::kAlert, "\"{}\" is written too slowly, lines are dropped", path_);
  }
}

void LogWriter::submit() {
  due_ = true;
  advance();
}

// Starts what is to be written next, unless something is under way.
void LogWriter::advance() {
  if (write_.pending() || retry_timer_.scheduled() || held_ || fd_ < 0) return;
  if (writing_.empty() && next_fd_ >= 0 && (!flush_old_ || collecting_.empty())) swap_descriptor();
  if (writing_.empty()) {
    if (collecting_.empty() || (!due_ && !flush_old_)) {
      if (idle_ != nullptr && empty()) idle_(*this);
      return;
    }
    take_batch();
    if (writing_.empty()) return;
  }
  continue_write();
}

void LogWriter::take_batch() {
  loop_.cancel(flush_timer_);
  due_ = flush_old_ = false;
  begun_ms_ = loop_.clock().now_ms();
  written_ = 0;
  if (options_.gzip_level == 0) return writing_.swap(collecting_);
  batch_lines_ = count_lines(collecting_);
  writing_ = gzip_member(collecting_, options_.gzip_level);
  clear_generously(collecting_);
  if (writing_.empty()) lost_ += batch_lines_;
}

void LogWriter::continue_write() {
  loop_.write(fd_, writing_.data() + written_, writing_.size() - written_, UINT64_MAX, write_);
}

void LogWriter::on_written(int result) {
  if (result == -EINTR) return continue_write();
  if (result == -EAGAIN) return loop_.schedule(retry_timer_, kRetryFull);
  if (result <= 0) return write_failed(result == 0 ? ENOSPC : -result);
  written_ += static_cast<std::size_t>(result);
  if (written_ < writing_.size()) return continue_write();
  batch_written();
  advance();
}

void LogWriter::batch_written() {
  if (failing_) {
    failing_ = false;
    log(nullptr, LogLevel::kWarn, "\"{}\" is written again, {} lines were lost", path_, lost_);
    lost_ = 0;
  }
  clear_generously(writing_);
  written_ = 0;
}

// Said once per outage. What was to be written is kept, what comes meanwhile is collected up to
// kPendingBytesMax.
void LogWriter::write_failed(int errno_value) {
  if (!std::exchange(failing_, true))
    log_errno(nullptr, LogLevel::kAlert, errno_value, "write() to \"{}\" failed", path_);
  if (options_.gzip_level != 0) undo_partial_member();
  if (next_fd_ >= 0) {
    // The old file takes no more; the new one may be on another disk. It gets whole lines.
    const std::size_t newline = written_ == 0 ? std::string::npos : writing_.rfind('\n', written_);
    writing_.erase(0, newline == std::string::npos ? 0 : newline + 1);
    written_ = 0;
    swap_descriptor();
  }
  loop_.schedule(retry_timer_, kRetryFailed);
}

// A member cut short would hide all that follows it from whoever reads the file.
void LogWriter::undo_partial_member() {
  struct stat info {};
  if (written_ != 0 && ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) {
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size >= written_) {
      [[maybe_unused]] const int cut = ::ftruncate(fd_, static_cast<off_t>(size - written_));
    }
  }
  written_ = 0;
}

void LogWriter::reopen(int fd) {
  flush_old_ = !collecting_.empty();
  replace(fd);
}

void LogWriter::replace(int fd) {
  if (next_fd_ >= 0) ::close(next_fd_);
  next_fd_ = fd;
  // An outage of the old file is no reason to keep it any longer.
  loop_.cancel(retry_timer_);
  advance();
}

void LogWriter::swap_descriptor() {
  ::dup3(next_fd_, fd_, O_CLOEXEC);
  ::close(std::exchange(next_fd_, -1));
  flush_old_ = false;
}

void LogWriter::hold(bool on) {
  held_ = on;
  if (!on) advance();
}

void LogWriter::set_descriptor(int fd) {
  fd_ = fd;
  advance();
}

std::uint64_t LogWriter::discard() {
  const std::uint64_t lines =
      lost_ + count_lines(collecting_) +
      (options_.gzip_level != 0 && !writing_.empty() ? batch_lines_ : count_lines(writing_));
  collecting_.clear();
  writing_.clear();
  written_ = 0;
  lost_ = 0;
  failing_ = false;
  loop_.cancel(flush_timer_);
  loop_.cancel(retry_timer_);
  return lines;
}

// writing_, blocking.
bool LogWriter::write_rest() {
  struct stat info {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  constexpr int kPipeWaitMs = 100;
  while (written_ < writing_.size()) {
    std::size_t length = writing_.size() - written_;
    if (!regular) {
      // One that is ready takes so much without blocking.
      pollfd ready{fd_, POLLOUT, 0};
      if (::poll(&ready, 1, kPipeWaitMs) != 1 || (ready.revents & POLLOUT) == 0) return false;
      length = std::min<std::size_t>(length, PIPE_BUF);
    }
    const ssize_t n = ::write(fd_, writing_.data() + written_, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    written_ += static_cast<std::size_t>(n);
  }
  batch_written();
  return true;
}

void LogWriter::finish() {
  if (!idle()) return;
  loop_.cancel(retry_timer_);
  if (writing_.empty() && next_fd_ >= 0 && !flush_old_) swap_descriptor();
  bool written = fd_ >= 0;
  while (written && (!writing_.empty() || !collecting_.empty())) {
    if (writing_.empty()) take_batch();
    if (writing_.empty()) break;
    written = write_rest();
  }
  if (!written && options_.gzip_level != 0 && fd_ >= 0) undo_partial_member();
  if (written_ != 0) writing_.erase(0, written_);
  if (const std::uint64_t lines = discard(); lines != 0)
    log(nullptr, LogLevel::kAlert, "{} lines of \"{}\" were lost", lines, path_);
}

}  // namespace corehttpd::handlers
