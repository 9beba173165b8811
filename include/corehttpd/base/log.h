// The error log, in nginx's line shape:
//   2026/11/30 17:47:07 [error] 123#123: *7 message, client: 127.0.0.1, server: example.org,
//   request: "GET / HTTP/1.1", host: "x"
// Descriptors are opened and reopened by the master; a process writes whole lines with one write(2)
// each (O_APPEND).
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace corehttpd {

// nginx's levels, most severe first.
enum class LogLevel : std::uint8_t {
  kStderr,
  kEmerg,
  kAlert,
  kCrit,
  kError,
  kWarn,
  kNotice,
  kInfo,
  kDebug
};
std::string_view to_string(LogLevel level);

// Where lines of a scope go. Lives in the compiled configuration; the master fills fd in.
struct LogTarget {
  int fd = 2;
  LogLevel level = LogLevel::kError;
  std::string_view path;            // Empty: stderr.
  const LogTarget* next = nullptr;  // error_log may be given several times.
};

// Adds ", client: …, server: …" to a line. Implemented by what owns the context (Exchange,
// connection).
class LogContext {
 public:
  virtual void append_to(std::string& line) const = 0;
  virtual std::uint64_t connection_number() const = 0;

 protected:
  ~LogContext() = default;
};

// True if any target of the chain wants this level: ask before composing something dear.
bool log_enabled(const LogTarget* target, LogLevel level);
void log_line(const LogTarget* target, LogLevel level, const LogContext* context, int errno_value,
              fmt::string_view format, fmt::format_args arguments);

// target nullptr: the process's own (stderr until set_process_log).
template <class... T>
void log(const LogTarget* target, LogLevel level, fmt::format_string<T...> format,
         T&&... arguments) {
  if (log_enabled(target, level))
    log_line(target, level, nullptr, 0, format, fmt::make_format_args(arguments...));
}
template <class... T>
void log_errno(const LogTarget* target, LogLevel level, int errno_value,
               fmt::format_string<T...> format, T&&... arguments) {
  if (log_enabled(target, level))
    log_line(target, level, nullptr, errno_value, format, fmt::make_format_args(arguments...));
}
// The same with a context, and with " (2: No such file or directory)" when errno_value is not 0.
template <class... T>
void log_in(const LogTarget* target, LogLevel level, const LogContext& context, int errno_value,
            fmt::format_string<T...> format, T&&... arguments) {
  if (log_enabled(target, level))
    log_line(target, level, &context, errno_value, format, fmt::make_format_args(arguments...));
}
void set_process_log(const LogTarget* target);
const LogTarget* process_log();

}  // namespace corehttpd
