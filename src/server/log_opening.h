// Opens the log files of a configuration; the master does, workers get the descriptors by fork or
// over the channel.
#pragma once

#include <string>

#include "corehttpd/base/error.h"
#include "corehttpd/http/log_files.h"
#include "server/process.h"

namespace corehttpd::server {

// Opens path for appending, creating it 0640 owned by owner and group adm (if there is one). A
// missing directory directly under /var/log is made. No symbolic link is followed in a folder that
// others than root may write to.
Result<int> open_log(const std::string& path, const Identity& owner);
// Opens all; on the first failure nothing stays open and failed names the path.
Result<> open_logs(http::LogFiles& files, const Identity& owner, std::string& failed);
void close_logs(http::LogFiles& files);

}  // namespace corehttpd::server
