// Directories for temporary files (request bodies, spooled responses): made by the master, owned by
// the workers.
#pragma once

#include <string>

#include "corehttpd/conf/compiler.h"
#include "server/process.h"

namespace corehttpd::server {

// Creates what the configuration names and is missing, mode 0700. On failure failed names the
// directory.
Result<> make_temp_directories(const conf::Configuration& configuration, const Identity& owner,
                               std::string& failed);

}  // namespace corehttpd::server
