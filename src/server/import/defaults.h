// nginx's documented defaults, and what is written out because ours are others.
#pragma once

#include "conf/tables.h"
#include "server/import/plan.h"
#include "server/import/roots.h"
#include "server/import/tree.h"

namespace corehttpd::server::importer {

// Adds lines to the main file, events{} and http{} for what the operator left to nginx's defaults,
// wherever the table of the daemon has another one, and takes nginx's pid file out.
void write_defaults(const Roots& roots, const Tree& tree, const conf::Tables& tables, Plan& plan,
                    Report& report);

}  // namespace corehttpd::server::importer
