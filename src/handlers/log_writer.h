// The lines of one log file of one worker. Two strings take turns: one is being written by the
// ring, one write at a time, while the other collects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::handlers {

struct LogWriterOptions {
  std::uint64_t buffer_bytes = 0;  // 0: written at the end of the turn, if that was not just so.
  // With a buffer: the longest time that a line waits; 0: until the buffer is full.
  Milliseconds flush = 0;
  int gzip_level = 0;  // 0: plain text.
  friend bool operator==(const LogWriterOptions&, const LogWriterOptions&) = default;
};

class LogWriter {
 public:
  // Held back before lines are dropped, or twice the buffer if that is more.
  static constexpr std::size_t kPendingBytesMax = 4 * 1024 * 1024;
  static constexpr std::uint64_t kBufferBytesMax = 1024 * 1024 * 1024;
  // Told when nothing waits to be written any more. May not destroy the writer.
  using Idle = void (*)(LogWriter& writer);

  // fd stays the caller's; -1: lines wait for set_descriptor(). path must live as long.
  LogWriter(io::Loop& loop, std::string_view path, int fd, const LogWriterOptions& options = {},
            Idle idle = nullptr);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  // Nothing may be under way.
  ~LogWriter();

  // Where a line is to be appended, with its newline; nullptr: it is dropped and counted. Then
  // line_done().
  std::string* begin_line() {
    if (collecting_.size() < pending_max_) [[likely]]
      return &collecting_;
    lose_line();
    return nullptr;
  }
  void line_done();

  // Lines collected so far go to the file behind the descriptor; once they have, fd (which is taken
  // over) takes its place.
  void reopen(int fd);
  // The same, but what has not been handed to the ring yet goes to the new file as well.
  void replace(int fd);
  // Until it is let go again nothing more is written.
  void hold(bool on);
  void set_descriptor(int fd);
  int descriptor() const { return fd_; }

  // No write is under way.
  bool idle() const { return !write_.pending(); }
  bool empty() const { return idle() && writing_.empty() && collecting_.empty() && next_fd_ < 0; }
  // Writes what is collected, blocking (but never for long: a pipe that nobody reads loses it):
  // before the worker ends. Again after idle() if a write was under way.
  void finish();
  std::string_view path() const { return path_; }
  // Forgets what waits, counted as lost. For a file that could not be opened.
  std::uint64_t discard();

 private:
  static constexpr Milliseconds kRetryFailed = 1000;  // As nginx leaves a full disk alone.
  static constexpr Milliseconds kRetryFull = 20;      // A pipe whose reader is behind.
  // Without a buffer a write follows the one before after so long at the earliest, unless that much
  // waits: a thread of the kernel does each of them, and is to be woken a hundred times a second
  // rather than thousands of times.
  static constexpr Milliseconds kPause = 10;
  static constexpr std::size_t kPauseBytesMax = 64 * 1024;

  struct Task : TurnTask {
    Task(Run function, LogWriter& o) : TurnTask(function), owner(o) {}
    LogWriter& owner;
  };
  struct Timer : io::Timer {
    Timer(Fire function, LogWriter& o) : io::Timer(function), owner(o) {}
    LogWriter& owner;
  };
  struct Write : io::Operation {
    Write(Complete function, LogWriter& o) : io::Operation(function), owner(o) {}
    LogWriter& owner;
  };

  void submit();
  void advance();
  void take_batch();
  void continue_write();
  void on_written(int result);
  void write_failed(int errno_value);
  void batch_written();
  void undo_partial_member();
  void swap_descriptor();
  void lose_line();
  bool write_rest();

  io::Loop& loop_;
  std::string_view path_;
  LogWriterOptions options_;
  std::size_t pending_max_;
  Idle idle_;
  int fd_;
  int next_fd_ = -1;  // Takes fd_'s place when what was logged before is written.
  Task turn_task_;
  Timer flush_timer_;
  Timer retry_timer_;
  Write write_;
  std::string collecting_;
  std::string writing_;
  Milliseconds begun_ms_ = -kPause;  // When writing_ began to be written.
  std::size_t written_ = 0;          // Of writing_.
  std::uint64_t batch_lines_ = 0;    // Of writing_, where that is compressed.
  std::uint64_t lost_ = 0;           // Lines, since the outage began.
  bool due_ = false;                 // collecting_ is to be written as soon as possible.
  bool held_ = false;
  bool failing_ = false;    // An outage that was told; its end is to be told too.
  bool flush_old_ = false;  // collecting_ has lines that belong to the file before next_fd_.
};

}  // namespace corehttpd::handlers
