// What the tables say, for people: --describe, docs/reference and checks over the whole list of
// modules. Works on any list of modules; nothing is compiled.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

// What a row says, as text: for whoever prints it in a format of its own (the manual page, the
// shell's completion).
struct RowText {
  std::string_view name;
  std::string usage;             // "root path;"
  std::string by_default;        // "root html;"; empty: none.
  std::string contexts;          // "http, server, location"
  std::string_view inheritance;  // A sentence's part, for rows that work.
  std::string_view state;        // "accepted, not supported yet"; empty: it works.
  std::string_view module;
  std::string_view doc;
};
// Sorted by name, then in the order of the modules. Rows that another module replaced are left out.
std::vector<RowText> row_texts(std::span<const Module* const> modules);

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
