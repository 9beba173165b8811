// The error log, in nginx's line shape:
//   2026/11/30 17:47:07 [error] 123#123: *7 message, client: 127.0.0.1, server: example.org,
//   request: "GET / HTTP/1.1", host: "x"
// or, with error_log_format json, one JSON object a line. Descriptors are opened and reopened by
// the master; a process writes whole lines with one write(2) each (O_APPEND). Floods of equal lines
// are folded: see docs/formats.md.
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

// Takes lines in place of a file: syslog.
class LogSink {
 public:
  // line has no newline at its end. Never blocks.
  virtual void write(LogLevel level, std::string_view line) = 0;

 protected:
  ~LogSink() = default;
};

// Where lines of a scope go. Lives in the compiled configuration; the master fills fd in.
struct LogTarget {
  int fd = 2;
  LogLevel level = LogLevel::kError;
  std::string_view path;            // Empty: stderr.
  const LogTarget* next = nullptr;  // error_log may be given several times.
  LogSink* sink = nullptr;          // Written to instead of fd.
  mutable std::uint64_t lost = 0;   // Lines that could not be written, until that was told.
};

// Takes what belongs to a line besides its message.
class LogFields {
 public:
  // name: a literal. quoted: in nginx's shape the value stands in quotes.
  virtual void add(std::string_view name, std::string_view value, bool quoted) = 0;

 protected:
  ~LogFields() = default;
};

// What a line is about: ", client: …, server: …". Implemented by what owns it (Exchange,
// connection).
class LogContext {
 public:
  virtual void describe(LogFields& fields) const = 0;
  virtual std::uint64_t connection_number() const = 0;
  // A client of debug_connection: every level is logged, whatever the targets say.
  virtual bool debugged() const { return false; }

 protected:
  ~LogContext() = default;
};

// What holds for all targets of the process.
struct LogOptions {
  enum class Format : std::uint8_t { kNginx, kJson } format = Format::kNginx;
  bool request_id = false;  // Lines about a request carry its $request_id.
  // Nothing below it is wanted by any target: asking then costs one comparison.
  LogLevel most_verbose = LogLevel::kDebug;
};
void set_log_options(const LogOptions& options);

namespace detail {
extern LogOptions log_options;
bool log_wanted(const LogTarget* target, LogLevel level);
}  // namespace detail
inline const LogOptions& log_options() { return detail::log_options; }

// True if any target of the chain wants this level: ask before composing something dear.
inline bool log_enabled(const LogTarget* target, LogLevel level) {
  return level <= detail::log_options.most_verbose && detail::log_wanted(target, level);
}
inline bool log_enabled(const LogTarget* target, LogLevel level, const LogContext& context) {
  return level <= detail::log_options.most_verbose &&
         (detail::log_wanted(target, level) || context.debugged());
}
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
  if (log_enabled(target, level, context))
    log_line(target, level, &context, errno_value, format, fmt::make_format_args(arguments...));
}
// Writes what is folded first: its targets may go away with their configuration.
void set_process_log(const LogTarget* target);
const LogTarget* process_log();

// Lines have been folded and wait to be summed up; flush_folded_log() is due within a second.
bool log_is_folding();
// Writes "message repeated N times" for floods whose second is over, or for all.
void flush_folded_log(bool all);
// After fork: what the parent has folded is the parent's to say.
void forget_folded_log();

}  // namespace corehttpd
