// access_log and log_format. Lines are gathered per turn of the loop and written by the ring, one
// write in flight per file; a slow or full disk fills a bounded buffer, then lines are dropped,
// counted, and reported when it clears (design §8).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/http/services.h"

namespace corehttpd::handlers {

// How values are escaped: \xXX for what would break a line, as JSON strings, or not at all.
enum class LogEscape : std::uint8_t { kDefault, kJson, kNone };

struct LogFormat {
  std::string_view name;
  LogEscape escape = LogEscape::kDefault;
  expr::Program program;
};

// One access_log directive.
struct AccessLogTarget {
  std::string_view path;
  http::LogFile* file = nullptr;  // nullptr until finish() for the built-in default.
  const LogFormat* format = nullptr;
  expr::Program condition;  // if=: logged unless it evaluates to "" or "0".
  bool conditional = false;
  std::uint64_t buffer_bytes = 0;  // 0: written at the end of each turn.
  Milliseconds flush =
      0;  // With a buffer: the longest time that a line waits; 0: until it is full.
  AccessLogTarget* next = nullptr;
};

struct AccessLogSettings {
  AccessLogTarget* first = nullptr;  // nullptr: off.
};

const conf::Module& access_log_module();

// Appends one formatted line (with its newline) for exchange.
void format_log_line(const LogFormat& format, http::Exchange& exchange, std::string& out);

// One per worker.
class AccessLog final : public http::RequestLog {
 public:
  // Held back per file before lines are dropped.
  static constexpr std::size_t kPendingBytesMax = 4 * 1024 * 1024;

  AccessLog(io::Loop& loop, const http::LogFiles& files);
  ~AccessLog();
  void log(http::Exchange& exchange) override;
  // Writes what is held back, blocking: before the worker ends. Also when a log file is about to be
  // reopened, so that lines logged before the signal are in the old file.
  void flush_all();
  // No write is under way: the worker may end.
  bool idle() const;

 private:
  struct File;
  std::vector<std::unique_ptr<File>> files_;
};

}  // namespace corehttpd::handlers
