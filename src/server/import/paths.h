// Paths in the configuration: what nginx took from its prefix or its own directory is written out,
// what is in the old tree is found in the new one, and what is outside stays where it is.
#pragma once

#include <map>
#include <string>

#include "server/import/plan.h"
#include "server/import/roots.h"
#include "server/import/tree.h"

namespace corehttpd::server::importer {

// Files of the new tree that have no place in the old one: included from outside and changed.
using Mirrors = std::map<std::string, const SourceFile*>;  // By path in the new tree.

// Adds to the plan's edits; the mirrors needed.
Mirrors edit_paths(const Roots& roots, const Tree& tree, Plan& plan, Report& report);
// Whether a file is in the old tree, wherever links to it are.
bool is_inside(const Roots& roots, const SourceFile& file);

}  // namespace corehttpd::server::importer
