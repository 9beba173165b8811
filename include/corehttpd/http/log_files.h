// The log files that a configuration names, for error_log and access_log alike. The master opens
// them before it forks; to reopen (USR1) a process replaces what is behind the descriptor with
// dup2(2), so that the numbers kept here and in LogTarget never change.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/log.h"

namespace corehttpd::http {

struct LogFile {
  std::string_view path;  // Absolute, NUL-terminated past its end.
  int fd = -1;            // Opened by the master: append-only, close-on-exec.
  std::uint32_t index = 0;
};

// An object of the configuration (Compiler::object_or_make<LogFiles>()).
class LogFiles {
 public:
  // One LogFile per path, however often it is named. Lives as long as the arena (the
  // configuration's).
  LogFile& add(Arena& arena, std::string_view absolute_path) {
    for (LogFile* file : files_)
      if (file->path == absolute_path) return *file;
    LogFile* file = arena.make<LogFile>(
        LogFile{arena.copy(absolute_path), -1, static_cast<std::uint32_t>(files_.size())});
    files_.push_back(file);
    return *file;
  }
  // A target of error_log that writes to file: its fd is filled in when the file is opened.
  void bind(LogTarget& target, const LogFile& file) { targets_.push_back({&target, &file}); }
  // After opening: copies descriptors into the bound targets.
  void publish() {
    for (auto& [target, file] : targets_) target->fd = file->fd;
  }
  const std::vector<LogFile*>& files() const { return files_; }

 private:
  std::vector<LogFile*> files_;
  std::vector<std::pair<LogTarget*, const LogFile*>> targets_;
};

}  // namespace corehttpd::http
