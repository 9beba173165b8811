#include "corehttpd/conf/compiler.h"

#include <algorithm>

#include "conf/tables.h"
#include "conf/tree_compiler.h"
#include "conf/tree_reader.h"
#include "corehttpd/base/check.h"

namespace corehttpd::conf {
namespace {

// Word i, or the directive's name when there is no such word (a missing argument).
const Word& word_at(const Node& node, std::size_t i) {
  return i < node.words.size() ? node.words[i] : node.name;
}

void report(const Setting& s, Severity severity, std::size_t i, std::string_view message,
            std::string_view help) {
  const Word& word = word_at(s.node, i);
  s.compiler.diagnostics().add(severity, word.at, std::string(message), std::string(help),
                               word.text.size() + (word.quoted ? 2 : 0));
}

}  // namespace

Arena& Setting::arena() const { return compiler.arena(); }

bool Setting::fail_text(std::size_t i, std::string_view message, std::string_view help) const {
  // What does not say what would be right is helped out by the row.
  std::string syntax;
  if (help.empty() && message.starts_with("invalid ") &&
      message.find(" must be ") == std::string_view::npos) {
    syntax = syntax_of(*directive);
    help = syntax;
  }
  report(*this, Severity::kError, i, message, help);
  return false;
}

void Setting::warn_text(std::size_t i, std::string_view message) const {
  report(*this, Severity::kWarning, i, message, {});
}

void* Compiler::own_settings(Scope& scope, std::size_t module_index) {
  CORE_CHECK(module_index < modules_.size());
  const std::uint64_t bit = std::uint64_t{1} << module_index;
  if ((scope.owned & bit) == 0) {
    const Module& module = *modules_[module_index];
    void* const copy = arena().allocate(module.settings_bytes, module.settings_align);
    module.clone(copy, scope.settings[module_index]);
    scope.settings[module_index] = copy;
    scope.owned |= bit;
  }
  // Owned, so it was made here as a mutable object; only the slot's type is const.
  return const_cast<void*>(scope.settings[module_index]);
}

void Compiler::degrade_site(const Scope& scope, SiteFault::Kind kind, const Position& at,
                            std::string_view reason, std::size_t width) {
  configuration_.sites().degrade(scope, kind, at, arena().copy(reason), width);
}

std::string_view Compiler::full_path(std::string_view path) {
  if (path.starts_with('/')) return arena().copy(path);
  const bool slash = options_.prefix.empty() || options_.prefix.ends_with('/');
  return arena().concat(options_.prefix, slash ? "" : "/", path);
}

bool Compiler::compile_children(const Node& node, Scope& scope) {
  CORE_CHECK(tree_ != nullptr);
  return tree_->compile_block(node.children, scope);
}

Scope& Compiler::make_scope(Scope& parent, Context context, const Node* node) {
  Scope& scope = *arena().make<Scope>();
  scope.context = context;
  scope.parent = &parent;
  scope.node = node;
  scope.opened_by = node != nullptr ? node->name.text : std::string_view();
  const std::span<const void*> slots = arena().make_array<const void*>(modules_.size());
  std::copy_n(parent.settings, modules_.size(), slots.begin());
  scope.settings = slots.data();
  return scope;
}

// Not in an anonymous namespace: it sets up Compiler's private parts.
class Compilation {
 public:
  static std::unique_ptr<Configuration> run(const std::string_view* text, const Options& options,
                                            std::span<const Module* const> modules,
                                            Diagnostics& diagnostics, void (*prepare)(Compiler&)) {
    const std::size_t errors_before = diagnostics.errors();
    const Tables tables(modules);
    for (std::string& conflict : tables.conflicts()) {
      diagnostics.add(Severity::kError, {}, std::move(conflict));
    }
    if (diagnostics.errors() != errors_before) return nullptr;

    auto configuration = std::make_unique<Configuration>();
    const std::vector<std::string_view> raw_blocks = tables.raw_blocks();
    TreeReader reader(options, raw_blocks, configuration->arena(), diagnostics);
    if (!options.global_text.empty()) reader.read_command_line(options.global_text);
    text != nullptr ? reader.read_text(*text) : reader.read_main();

    Compiler compiler(*configuration, diagnostics, options);
    compiler.modules_ = modules;
    if (prepare != nullptr) prepare(compiler);
    if (!reader.broken()) {
      TreeCompiler tree(compiler, tables, reader);
      compiler.tree_ = &tree;
      tree.compile_block(reader.nodes(), tree.root());
      if (diagnostics.errors() == errors_before) tree.finish();
      configuration->sites().settle(diagnostics);
      compiler.tree_ = nullptr;
      configuration->root = tree.root().view();
    }
    diagnostics.sort();
    if (diagnostics.errors() != errors_before) return nullptr;
    return configuration;
  }
};

std::unique_ptr<Configuration> compile(const Options& options,
                                       std::span<const Module* const> modules,
                                       Diagnostics& diagnostics, void (*prepare)(Compiler&)) {
  return Compilation::run(nullptr, options, modules, diagnostics, prepare);
}

std::unique_ptr<Configuration> compile_text(std::string_view text, const Options& options,
                                            std::span<const Module* const> modules,
                                            Diagnostics& diagnostics, void (*prepare)(Compiler&)) {
  return Compilation::run(&text, options, modules, diagnostics, prepare);
}

Result<std::string> dump(const Options& options, Diagnostics& diagnostics) {
  Arena arena(64 * 1024);
  const std::size_t errors_before = diagnostics.errors();
  TreeReader reader(options, {}, arena, diagnostics);
  reader.read_main();
  if (reader.broken() || diagnostics.errors() != errors_before) {
    return fail(Code::kMalformed, "reading the configuration");
  }
  std::string out;
  for (const TreeReader::File& file : reader.files()) {
    out.append("# configuration file ").append(file.path).append(":\n");
    out.append(file.text).append("\n");
  }
  return out;
}

}  // namespace corehttpd::conf
