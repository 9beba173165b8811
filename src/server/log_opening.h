// Opens the log files of a configuration and looks its syslog servers up; the master does, workers
// get the descriptors by fork or over the channel.
#pragma once

#include <string>

#include "corehttpd/base/error.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/log_files.h"
#include "server/process.h"

namespace corehttpd::server {

// Opens path for appending, creating it 0640 owned by owner and group adm (if there is one). A
// missing directory directly under /var/log is made. Refuses what others may have planted: see
// io::open_append().
Result<int> open_log(const std::string& path, const Identity& owner);
// "open() "/x" failed (2: No such file or directory)", or why it was refused.
std::string describe_log_failure(std::string_view path, const Error& error);
// Opens all and resolves the names of syslog servers; empty, or what is wrong, and then nothing
// stays open.
std::string open_logs(http::LogFiles& files, const Identity& owner);
void close_logs(http::LogFiles& files);
// From now on the process logs where and how configuration says.
void install_process_log(const conf::Configuration& configuration);

}  // namespace corehttpd::server
