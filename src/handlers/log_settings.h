// What log_format and access_log share while a configuration is compiled.
#pragma once

#include <vector>

#include "corehttpd/handlers/access_log.h"
#include "handlers/log_writer.h"

namespace corehttpd::handlers {

// The format of that name, the built-in "combined" among them; nullptr if there is none.
const LogFormat* find_log_format(const conf::Setting& s, std::string_view name);
bool set_log_format(const conf::Setting& s);

// How the files of access logs are written; an object of the configuration. A file that several
// directives name is written in one way.
class AccessFiles {
 public:
  // False if the file is already written in another way.
  bool set(const http::LogFile& file, const LogWriterOptions& options) {
    if (options_.size() <= file.index) options_.resize(file.index + 1);
    LogWriterOptions& known = options_[file.index];
    if (options.buffer_bytes == 0 || options == known) return true;
    if (known.buffer_bytes != 0) return false;
    known = options;
    return true;
  }
  LogWriterOptions get(const http::LogFile& file) const {
    return file.index < options_.size() ? options_[file.index] : LogWriterOptions();
  }
  std::uint32_t variable_paths = 0;  // LogPath objects made.

 private:
  std::vector<LogWriterOptions> options_;
};

}  // namespace corehttpd::handlers
