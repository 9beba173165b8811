// The modules' tables as one index: which row is meant by a name in a context, what looks like a
// misspelt name, and whether the tables agree with each other.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

struct Row {
  const Module* module;
  std::size_t module_index;
  const Directive* directive;
  Context contexts;  // Where this row decides: its own but for those it yields. kNone: nowhere.
};

class Tables {
 public:
  // One bit each in Scope::owned.
  static constexpr std::size_t kModulesMax = 64;

  explicit Tables(std::span<const Module* const> modules);
  std::span<const Module* const> modules() const { return modules_; }
  // By name, then in the order of the modules; rows that decide nowhere are among them.
  std::span<const Row> rows() const { return rows_; }
  std::span<const Row> rows(std::string_view name) const;
  // The row of name that decides in context; nullptr: none.
  const Row* find(std::string_view name, Context context) const;
  // All contexts in which name may stand.
  Context contexts(std::string_view name) const;
  // Up to three names like this one, nearest first; of equally near ones those allowed in context
  // (kNone: any) come first.
  std::vector<std::string_view> nearest(std::string_view name, Context context) const;
  // Names of blocks whose lines are words (types, map), sorted.
  std::vector<std::string_view> raw_blocks() const;
  std::vector<std::string> conflicts() const;

 private:
  std::span<const Module* const> modules_;
  std::vector<Row> rows_;
};

// "syntax: root path;", for a help line.
std::string syntax_of(const Directive& directive);
// "a", "b" or "c": names quoted and joined for a help line.
std::string quoted_list(std::span<const std::string_view> names);

}  // namespace corehttpd::conf
