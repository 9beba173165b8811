// Walks the syntax tree with the tables: finds each directive's row, checks where and how it
// stands, and calls its setter; simple directives of a block first, then the blocks in it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "conf/tables.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

class TreeReader;

class TreeCompiler {
 public:
  // All outlive it. Makes the root scope with each module's initial settings and applies the
  // defaults of the tables, which reader parses.
  TreeCompiler(Compiler& compiler, const Tables& tables, TreeReader& reader);

  Scope& root() { return root_; }
  // False when anything in the block was wrong; all of it has been reported then.
  bool compile_block(std::span<const Node> nodes, Scope& scope);
  void finish();

 private:
  // Uses of a row in one block: the first, for "is duplicate".
  using Seen = std::unordered_map<const Directive*, const Node*>;

  void apply_defaults(TreeReader& reader);
  // The row that decides, or nullptr when the directive has been dealt with: an error, a notice.
  const Row* resolve(const Node& node, const Scope& scope);
  const Row* fail_unknown(const Node& node, const Scope& scope);
  bool check_form(const Node& node, const Directive& directive);
  // True when the directive works.
  bool check_stage(const Node& node, const Directive& directive);
  // Whether it is the first use here; reports a duplicate by returning false in allowed.
  bool is_first(const Node& node, const Directive& directive, Seen& seen, bool& allowed);
  void check_lines(const Node& block);
  void apply(const Setting& setting);
  void compile_child(const Node& node, const Row& row, Scope& scope, bool first_here,
                     std::uint32_t order);
  // "is a ";" missing at the end of line 3?" when a word looks like the next directive; or empty.
  std::string missing_semicolon(const Node& node, Context context) const;
  void error(const Node& node, std::string message, std::string help = {});

  Compiler& compiler_;
  Diagnostics& diagnostics_;
  const Tables& tables_;
  Scope& root_;
  std::size_t depth_ = 0;
};

}  // namespace corehttpd::conf
