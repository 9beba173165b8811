// access_log, log_format and open_log_file_cache. Lines are gathered per turn of the loop and
// written by the ring, one write in flight per file; a slow or full disk fills a bounded buffer,
// then lines are dropped, counted, and reported when it clears (design §8).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/http/services.h"

namespace corehttpd::handlers {

class LogCache;
class LogWriter;

// How values are escaped: \xXX for what would break a line, as JSON strings, or not at all.
enum class LogEscape : std::uint8_t { kDefault, kJson, kNone };

struct LogFormat {
  std::string_view name;
  LogEscape escape = LogEscape::kDefault;
  expr::Program program;
};

// A path with variables, opened by the worker. Relative values are taken from prefix.
struct LogPath {
  expr::Program program;
  std::string_view prefix;
  std::uint32_t index = 0;  // Among the configuration's.
};

// One access_log directive: exactly one of file, syslog and variable_path is set.
struct AccessLogTarget {
  std::string_view path;
  http::LogFile* file = nullptr;  // nullptr until finish() for the built-in default.
  Syslog* syslog = nullptr;
  const LogPath* variable_path = nullptr;
  const LogFormat* format = nullptr;
  expr::Program condition;  // if=: logged unless it evaluates to "" or "0".
  bool conditional = false;
  AccessLogTarget* next = nullptr;
};

// open_log_file_cache: for paths with variables. Each worker has one cache.
struct LogCachePolicy {
  bool enabled = false;
  std::uint64_t entries_max = 0;
  std::uint64_t uses_min = 1;  // Within inactive_ms, for the file to stay open.
  Milliseconds inactive_ms = 10'000;
  Milliseconds valid_ms = 60'000;  // Then it is opened anew, in case the name means another file.
};

struct AccessLogSettings {
  AccessLogTarget* first = nullptr;  // nullptr: off.
  bool off = false;                  // "off" was said: whatever else stands beside it.
  LogCachePolicy cache;
};

const conf::Module& access_log_module();

// Appends one formatted line for exchange, without a newline.
void format_log_line(const LogFormat& format, http::Exchange& exchange, std::string& out);

// One per worker.
class AccessLog final : public http::RequestLog {
 public:
  // configuration has been compiled with access_log_module().
  AccessLog(io::Loop& loop, const conf::Configuration& configuration);
  ~AccessLog();
  void log(http::Exchange& exchange) override;
  // The log file of this index (of LogFiles) was opened anew: once the lines logged so far are in
  // the old file, fd, which is taken over, takes the place of its descriptor.
  void reopen(std::uint32_t index, int fd);
  // The files named by variables are opened anew when they are next used.
  void forget_opened();
  // Writes what is held back, blocking: before the worker ends. Again after idle().
  void flush_all();
  // No write is under way: the worker may end.
  bool idle() const;

 private:
  void log_to_file(const AccessLogTarget& target, http::Exchange& exchange);
  void log_to_syslog(const AccessLogTarget& target, http::Exchange& exchange);

  std::vector<std::unique_ptr<LogWriter>> writers_;  // By LogFile::index.
  std::unique_ptr<LogCache> cache_;
  std::string line_;  // For syslog; kept for its memory.
};

}  // namespace corehttpd::handlers
