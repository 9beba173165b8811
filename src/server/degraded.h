// What the master says of degraded sites, and whether they refuse a reload.
#pragma once

#include <string>

#include "corehttpd/conf/compiler.h"

namespace corehttpd::server {

// One warning per fault into the log of the process: at start, when it is open.
void log_degraded(const conf::Configuration& configuration);
// What refuses a reload from running to fresh: the first site, and how many more, that are healthy
// now and would be degraded. Empty: none.
std::string find_newly_degraded(const conf::Configuration& running,
                                const conf::Configuration& fresh);

}  // namespace corehttpd::server
