// What the master says of degraded sites, and whether they refuse a reload.
#pragma once

#include "corehttpd/conf/compiler.h"

namespace corehttpd::server {

// One warning per fault into the log of the process: at start, when it is open.
void log_degraded(const conf::Configuration& configuration);
// Whether a reload from running to fresh would degrade a site that is healthy now; each such fault
// has been logged then.
bool degrades_healthy_sites(const conf::Configuration& running, const conf::Configuration& fresh);

}  // namespace corehttpd::server
