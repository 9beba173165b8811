// The log files and syslog servers that a configuration names, for error_log and access_log alike.
// The master opens files and looks names up before it forks; to reopen (USR1) a process replaces
// what is behind the descriptor with dup2(2), so that the numbers kept here and in LogTarget never
// change. Syslog sockets are each process's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/log.h"
#include "corehttpd/base/syslog.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::http {

struct LogFile {
  std::string_view path;  // Absolute, NUL-terminated past its end.
  int fd = -1;            // Opened by the master: append-only, close-on-exec.
  std::uint32_t index = 0;
};

// A server and where it is named, for messages.
struct SyslogServer {
  Syslog* syslog;
  std::string_view text;  // The whole word of the directive: equal words share the server.
  conf::Position at;
};

// An object of the configuration (Compiler::object_or_make<LogFiles>()).
class LogFiles {
 public:
  // One LogFile per path, however often it is named. Lives as long as the arena (the
  // configuration's).
  LogFile& add(Arena& arena, std::string_view absolute_path) {
    if (const auto found = by_path_.find(absolute_path); found != by_path_.end())
      return *found->second;
    LogFile* file = arena.make<LogFile>(
        LogFile{arena.copy(absolute_path), -1, static_cast<std::uint32_t>(files_.size())});
    files_.push_back(file);
    by_path_.emplace(file->path, file);
    return *file;
  }
  // A target of error_log that writes to file: its fd is filled in when the file is opened.
  void bind(LogTarget& target, const LogFile& file) { targets_.push_back({&target, &file}); }
  // After opening: copies descriptors into the bound targets.
  void publish() {
    for (auto& [target, file] : targets_) target->fd = file->fd;
  }
  const std::vector<LogFile*>& files() const { return files_; }

  // A folder beneath which workers open logs themselves; lives in the configuration.
  void add_worker_directory(std::string_view directory) {
    if (std::find(directories_.begin(), directories_.end(), directory) == directories_.end())
      directories_.push_back(directory);
  }
  const std::vector<std::string_view>& worker_directories() const { return directories_; }

  // The server of a "syslog:…" word, made once. nullptr: the word is wrong, and the error is
  // recorded.
  Syslog* add_syslog(const conf::Setting& s, std::size_t word);
  // Their addresses are to be set before anything is logged.
  const std::vector<SyslogServer>& syslogs() const { return syslogs_; }

  // What holds for the process's lines; the server installs it with the process's log.
  const LogOptions& options() const { return options_; }
  LogOptions& options() { return options_; }
  void note_level(LogLevel level) {
    options_.most_verbose = std::max(options_.most_verbose, level);
  }

 private:
  std::vector<LogFile*> files_;
  std::unordered_map<std::string_view, LogFile*> by_path_;
  std::vector<std::pair<LogTarget*, const LogFile*>> targets_;
  std::vector<SyslogServer> syslogs_;
  std::vector<std::string_view> directories_;
  LogOptions options_{.most_verbose = LogLevel::kNotice};  // stderr's, where nothing is configured.
};

}  // namespace corehttpd::http
