#include "conf/tree_compiler.h"

#include <fmt/format.h>

#include <vector>

#include "conf/foreign.h"
#include "conf/tree_reader.h"

namespace corehttpd::conf {
namespace {

std::size_t shown_width(const Word& word) { return word.text.size() + (word.quoted ? 2 : 0); }

Scope& make_root_scope(Compiler& compiler, std::span<const Module* const> modules) {
  Arena& arena = compiler.arena();
  Scope& root = *arena.make<Scope>();
  root.settings = arena.make_array<const void*>(modules.size()).data();
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const Module& module = *modules[i];
    void* const settings = arena.allocate(module.settings_bytes, module.settings_align);
    module.construct(settings);
    root.settings[i] = settings;
    root.owned |= std::uint64_t{1} << i;
    if (module.index != nullptr) *module.index = i;
  }
  return root;
}

}  // namespace

TreeCompiler::TreeCompiler(Compiler& compiler, const Tables& tables, TreeReader& reader)
    : compiler_(compiler),
      diagnostics_(compiler.diagnostics()),
      tables_(tables),
      root_(make_root_scope(compiler, tables.modules())) {
  apply_defaults(reader);
}

void TreeCompiler::apply_defaults(TreeReader& reader) {
  // In the order of the modules, so that what one row sets up is there for a later row's default.
  for (const Module* module : tables_.modules()) {
    for (const Directive& d : module->directives) {
      if (d.default_value.empty() || d.stage != Stage::kWorks || d.kind == Kind::kBlock) continue;
      const Row* row = nullptr;
      for (const Row& other : tables_.rows(d.name)) {
        if (other.directive == &d && other.contexts != Context::kNone) row = &other;
      }
      if (row == nullptr) continue;
      const char* const form = d.kind == Kind::kRawBlock ? "{} {{ {} }}" : "{} {};";
      const std::span<const Node> nodes =
          reader.read_snippet(fmt::format("default of {}", d.name),
                              fmt::format(fmt::runtime(form), d.name, d.default_value));
      if (nodes.size() != 1 || !check_form(nodes[0], d)) continue;
      apply({.compiler = compiler_,
             .scope = root_,
             .node = nodes[0],
             .settings = compiler_.own_settings(root_, row->module_index),
             .directive = &d});
    }
  }
}

bool TreeCompiler::compile_block(std::span<const Node> nodes, Scope& scope) {
  const std::size_t errors_before = diagnostics_.errors();
  struct Pending {
    const Node* node;
    const Row* row;
    bool first_here;
    std::uint32_t order;
  };
  std::vector<Pending> blocks;
  Seen seen;
  std::uint32_t order = 0;
  for (const Node& node : nodes) {
    const std::uint32_t place = order++;
    const Row* const row = resolve(node, scope);
    if (row == nullptr) continue;
    bool allowed = true;
    const bool first = is_first(node, *row->directive, seen, allowed);
    if (!allowed) continue;
    // Before any child exists: a child shares what its parent has when it is made.
    void* const settings = compiler_.own_settings(scope, row->module_index);
    if (row->directive->kind == Kind::kBlock) {
      blocks.push_back({&node, row, first, place});
      continue;
    }
    if (row->directive->kind == Kind::kRawBlock) check_lines(node);
    apply({.compiler = compiler_,
           .scope = scope,
           .node = node,
           .settings = settings,
           .directive = row->directive,
           .first_here = first,
           .order = place});
  }
  for (const Pending& block : blocks) {
    compile_child(*block.node, *block.row, scope, block.first_here, block.order);
  }
  return diagnostics_.errors() == errors_before;
}

void TreeCompiler::compile_child(const Node& node, const Row& row, Scope& scope, bool first_here,
                                 std::uint32_t order) {
  // The reader bounds nesting within a file; included files may add to it.
  if (depth_ >= kNestingMax) return error(node, "too deeply nested block");
  const std::size_t errors_before = diagnostics_.errors();
  Scope& child = compiler_.make_scope(scope, row.directive->opens, &node);
  apply({.compiler = compiler_,
         .scope = scope,
         .child = &child,
         .node = node,
         .settings = compiler_.own_settings(scope, row.module_index),
         .directive = row.directive,
         .first_here = first_here,
         .order = order});
  // A block that its setter refused is no place to compile in: its object may be missing.
  if (diagnostics_.errors() != errors_before) return;
  ++depth_;
  const bool fine = compile_block(node.children, child);
  --depth_;
  if (fine && child.close != nullptr && !child.close(compiler_, child) &&
      diagnostics_.errors() == errors_before) {
    error(node, fmt::format("\"{}\" directive is invalid", node.name.text));
  }
}

void TreeCompiler::apply(const Setting& setting) {
  const std::size_t errors_before = diagnostics_.errors();
  if (!setting.directive->set(setting) && diagnostics_.errors() == errors_before) {
    setting.fail(Setting::kWholeDirective, "\"{}\" directive invalid value", setting.name());
  }
}

void TreeCompiler::finish() {
  for (const Module* module : tables_.modules()) {
    if (module->finish != nullptr) module->finish(compiler_);
  }
}

const Row* TreeCompiler::resolve(const Node& node, const Scope& scope) {
  const std::string_view name = node.name.text;
  const Row* const row = tables_.find(name, scope.context);
  if (row == nullptr) {
    const Context allowed = tables_.contexts(name);
    if (allowed == Context::kNone) return fail_unknown(node, scope);
    error(node, fmt::format("\"{}\" directive is not allowed here", name),
          fmt::format("this is \"{}\"; allowed in: {}", context_name(scope.context),
                      context_names(allowed)));
    return nullptr;
  }
  const Directive& directive = *row->directive;
  if (!check_form(node, directive) || !check_stage(node, directive)) return nullptr;
  return row;
}

const Row* TreeCompiler::fail_unknown(const Node& node, const Scope& scope) {
  std::string help(foreign_help(node.name.text));
  if (!help.empty()) {
    // Its names are often near ours ("Redirect"), but not meant.
  } else if (const auto names = tables_.nearest(node.name.text, scope.context); !names.empty()) {
    help = fmt::format("did you mean {}?", quoted_list(names));
  }
  error(node, fmt::format("unknown directive \"{}\"", node.name.text), std::move(help));
  return nullptr;
}

bool TreeCompiler::check_form(const Node& node, const Directive& directive) {
  if (node.is_block && directive.kind == Kind::kValue) {
    std::string help = missing_semicolon(node, directive.contexts);
    if (help.empty()) help = syntax_of(directive);
    error(node, fmt::format("directive \"{}\" is not terminated by \";\"", directive.name),
          std::move(help));
    return false;
  }
  if (!node.is_block && directive.kind != Kind::kValue) {
    error(node, fmt::format("directive \"{}\" has no opening \"{{\"", directive.name),
          syntax_of(directive));
    return false;
  }
  const std::size_t count = node.words.size();
  const Arity arity = directive.arity;
  if (count >= arity.min && (count <= arity.max || arity.max == at_least(0).max)) return true;
  std::string help = missing_semicolon(node, directive.contexts);
  if (help.empty()) help = syntax_of(directive);
  error(node, fmt::format("invalid number of arguments in \"{}\" directive", directive.name),
        std::move(help));
  return false;
}

bool TreeCompiler::check_stage(const Node& node, const Directive& directive) {
  const auto notice = [&](const char* what) {
    diagnostics_.add(Severity::kNotice, node.name.at,
                     fmt::format("\"{}\" directive {}", directive.name, what),
                     std::string(directive.doc), shown_width(node.name));
    return false;
  };
  switch (directive.stage) {
    case Stage::kWorks:
      return true;
    case Stage::kNoMeaning:
      return notice("has no meaning here and is ignored");
    case Stage::kLater:
      return notice("is not supported yet and is ignored");
    case Stage::kRefused:
      error(node, fmt::format("\"{}\" directive is not supported", directive.name),
            std::string(directive.doc));
      return false;
  }
  return false;
}

bool TreeCompiler::is_first(const Node& node, const Directive& directive, Seen& seen,
                            bool& allowed) {
  const auto [place, is_new] = seen.try_emplace(&directive, &node);
  allowed = is_new || directive.inherit != Inherit::kOverride;
  if (!allowed) {
    const Position& at = place->second->name.at;
    error(node, fmt::format("\"{}\" directive is duplicate", directive.name),
          fmt::format("the first is in {}:{}:{}", at.file, at.line, at.column));
  }
  return is_new;
}

// The lines of a raw block are words; the reader sees to it but for an included file's.
void TreeCompiler::check_lines(const Node& block) {
  for (const Node& line : block.children) {
    if (line.is_block) error(line, "unexpected \"{\"", "a word with braces has to be quoted");
  }
}

std::string TreeCompiler::missing_semicolon(const Node& node, Context context) const {
  std::uint32_t line = node.name.at.line;
  for (const Word& word : node.words) {
    if (word.at.line > line && !word.quoted && has(tables_.contexts(word.text), context)) {
      return fmt::format("is a \";\" missing at the end of line {}?", line);
    }
    line = word.at.line;
  }
  return {};
}

void TreeCompiler::error(const Node& node, std::string message, std::string help) {
  diagnostics_.add(Severity::kError, node.name.at, std::move(message), std::move(help),
                   shown_width(node.name));
}

}  // namespace corehttpd::conf
