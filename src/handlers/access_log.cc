#include "corehttpd/handlers/access_log.h"

#include <unistd.h>

#include <cerrno>

#include "corehttpd/http/exchange.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::handlers {
namespace {

template <class Base, class Owner>
struct Owned : Base {
  template <class Function>
  Owned(Function function, Owner& o) : Base(function), owner(o) {}
  Owner& owner;
};

std::uint64_t count_lines(std::string_view text) {
  std::uint64_t lines = 0;
  for (char c : text) lines += c == '\n' ? 1 : 0;
  return lines;
}

}  // namespace

// The lines of one file. Two strings take turns: one is being written while the other collects.
struct AccessLog::File {
  File(io::Loop& event_loop, const http::LogFile& file)
      : loop(event_loop),
        log_file(file),
        turn_task([](TurnTask& t) { static_cast<Owned<TurnTask, File>&>(t).owner.submit(); },
                  *this),
        flush_timer([](io::Timer& t) { static_cast<Owned<io::Timer, File>&>(t).owner.submit(); },
                    *this),
        write([](io::Operation& o,
                 int r) { static_cast<Owned<io::Operation, File>&>(o).owner.on_written(r); },
              *this) {}

  void append(const AccessLogTarget& target, http::Exchange& exchange);
  void submit();
  void continue_write();
  void on_written(int result);
  void drop_writing(int errno_value);
  void flush_blocking();

  io::Loop& loop;
  const http::LogFile& log_file;
  Owned<TurnTask, File> turn_task;
  Owned<io::Timer, File> flush_timer;
  Owned<io::Operation, File> write;
  std::string collecting;
  std::string writing;
  std::size_t written = 0;    // Of writing.
  std::uint64_t dropped = 0;  // Lines lost since the last successful write.
};

void AccessLog::File::append(const AccessLogTarget& target, http::Exchange& exchange) {
  if (collecting.size() >= kPendingBytesMax) {
    ++dropped;
    return;
  }
  format_log_line(*target.format, exchange, collecting);
  if (target.buffer_bytes == 0 || collecting.size() >= target.buffer_bytes) {
    loop.turn().post(turn_task);
  } else if (target.flush > 0 && !flush_timer.scheduled()) {
    loop.schedule(flush_timer, target.flush);
  }
}

void AccessLog::File::submit() {
  if (write.pending() || collecting.empty())
    return;  // The write under way sends the rest when it ends.
  loop.cancel(flush_timer);
  writing.swap(collecting);
  written = 0;
  continue_write();
}

void AccessLog::File::continue_write() {
  loop.write(log_file.fd, writing.data() + written, writing.size() - written, UINT64_MAX, write);
}

void AccessLog::File::on_written(int result) {
  if (result == -EINTR || result == -EAGAIN) return continue_write();
  if (result <= 0) {
    drop_writing(result == 0 ? ENOSPC : -result);
  } else {
    written += static_cast<std::size_t>(result);
    if (written < writing.size()) return continue_write();
    if (dropped != 0) {
      corehttpd::log(nullptr, LogLevel::kWarn,
                     "{} lines of \"{}\" were dropped while it could not be written", dropped,
                     log_file.path);
      dropped = 0;
    }
  }
  writing.clear();
  submit();
}

void AccessLog::File::drop_writing(int errno_value) {
  // Said once per outage: the count follows when the disk is back.
  if (dropped == 0)
    log_errno(nullptr, LogLevel::kAlert, errno_value, "write() to \"{}\" failed", log_file.path);
  dropped += count_lines(std::string_view(writing).substr(written));
}

void AccessLog::File::flush_blocking() {
  // What the ring has under way is the ring's; the rest is written here.
  std::string_view rest = collecting;
  while (!rest.empty()) {
    const ssize_t n = ::write(log_file.fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  collecting.clear();
}

AccessLog::AccessLog(io::Loop& loop, const http::LogFiles& files) {
  for (const http::LogFile* file : files.files())
    files_.push_back(std::make_unique<File>(loop, *file));
}

AccessLog::~AccessLog() = default;

void AccessLog::log(http::Exchange& exchange) {
  for (const AccessLogTarget* target = exchange.settings<AccessLogSettings>().first;
       target != nullptr; target = target->next) {
    if (target->file == nullptr) continue;
    if (target->conditional) {
      const std::string_view value = target->condition.evaluate(exchange);
      if (value.empty() || value == "0") continue;
    }
    files_[target->file->index]->append(*target, exchange);
  }
}

bool AccessLog::idle() const {
  for (const auto& file : files_) {
    if (file->write.pending()) return false;
  }
  return true;
}

void AccessLog::flush_all() {
  for (auto& file : files_) file->flush_blocking();
}

}  // namespace corehttpd::handlers
