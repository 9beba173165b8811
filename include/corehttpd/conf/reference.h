// What the tables say, for people: --describe, docs/reference and checks over the whole list of
// modules. Works on any list of modules; nothing is compiled.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

// --describe NAME: syntax, default, contexts, inheritance, state and doc of each row of that name.
// Empty when there is none.
std::string describe(std::span<const Module* const> modules, std::string_view name);
// --describe without a name: one line per directive, sorted by name. Rows that another module
// replaced are left out.
std::string describe_all(std::span<const Module* const> modules);
// For a --describe of what does not exist: up to three names that look like it.
std::vector<std::string_view> nearest_names(std::span<const Module* const> modules,
                                            std::string_view name);
// docs/reference/<module>.md. Deterministic: the same tables give the same bytes. modules: the
// whole list, to leave out what others replaced; module is one of it.
std::string reference_markdown(std::span<const Module* const> modules, const Module& module);

// Mistakes in tables, one sentence each: two rows of one name that overlap, two modules with one
// settings type, too many modules.
std::vector<std::string> table_conflicts(std::span<const Module* const> modules);
// Rows of modules that yield, of which other modules have taken over every context: they can be
// deleted.
std::vector<const Directive*> shadowed_rows(std::span<const Module* const> modules);

}  // namespace corehttpd::conf
