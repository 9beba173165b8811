// The contract of directive tables. Each module declares its directives in one constexpr table
// beside the code that uses them; from the same rows come parsing, inheritance, defaults,
// diagnostics, --describe and docs/reference. A new option touches two places: a field in the
// module's settings struct and a row here.
//
// A name may have several rows, in one module or in several, as long as their contexts are
// disjoint: "if" in server and "if" in location, "server" in http and "server" in upstream. Two
// rows that overlap are a mistake that compile() reports.
//
// Meaning is nginx's: a block's simple directives are all applied before its child blocks are
// compiled, so order within a block does not matter; a child starts as a copy of its parent's
// settings (made when it first changes something).
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "corehttpd/base/arena.h"

namespace corehttpd::conf {

// Blocks in which a directive may stand. kIfServer/kIfLocation: nginx's "if" in server/location;
// kLimitExcept as in nginx.
enum class Context : std::uint32_t {
  kNone = 0,
  kMain = 1u << 0,
  kEvents = 1u << 1,
  kHttp = 1u << 2,
  kServer = 1u << 3,
  kLocation = 1u << 4,
  kUpstream = 1u << 5,
  kIfServer = 1u << 6,
  kIfLocation = 1u << 7,
  kLimitExcept = 1u << 8,
  kStream = 1u << 9,
  kMail = 1u << 10,
};
constexpr Context operator|(Context a, Context b) {
  return static_cast<Context>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool has(Context set, Context one) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(one)) != 0;
}
inline constexpr Context kHttpServerLocation =
    Context::kHttp | Context::kServer | Context::kLocation;
// "http", "server", "location", "if in server", …; one bit only.
std::string_view context_name(Context one);
// "http, server, location": all bits, outermost first.
std::string context_names(Context set);

enum class Kind : std::uint8_t {
  kValue,     // name words… ;
  kBlock,     // name words… { directives }: the setter opens it, its children are compiled in the
              // child scope.
  kRawBlock,  // name words… { lines }: the setter reads node.children itself (types, map, geo).
};
enum class Inherit : std::uint8_t {
  kOverride,  // A child's value replaces the parent's; a second one in the same block is an error
              // ("is duplicate").
  kList,    // May be repeated in one block; the first in a child block starts a fresh list (nginx's
            // add_header, fastcgi_param).
  kAppend,  // May be repeated; a child adds to the parent's.
  kNone,    // Not inherited; may be repeated if the setter allows (listen, server_name, location).
};
// What accepting the directive means.
enum class Stage : std::uint8_t {
  kWorks,
  kNoMeaning,  // Accepted, has no meaning here; notice with doc as the reason.
  kLater,      // Accepted, its feature is still to come; notice.
  kRefused,    // Restricts access and does not work yet, or was removed: an error with doc as the
               // reason.
};

struct Arity {
  std::uint8_t min, max;
};
constexpr Arity exactly(std::uint8_t n) { return {n, n}; }
constexpr Arity at_least(std::uint8_t n) { return {n, 255}; }
constexpr Arity between(std::uint8_t a, std::uint8_t b) { return {a, b}; }

struct Position {
  std::string_view file;
  std::uint32_t line = 0;    // From 1.
  std::uint32_t column = 0;  // From 1.
};
struct Word {
  // Quotes and escapes resolved as nginx does; variables still in it. NUL-terminated past its end.
  // Like the whole syntax tree it lives as long as the configuration, so settings may point to it.
  std::string_view text;
  bool quoted = false;
  Position at;
};
// A directive as written: the syntax tree's node.
struct Node {
  Word name;
  std::span<const Word> words;
  std::span<const Node> children;  // Of a block.
  bool is_block = false;
};
// Limits of the reader; what exceeds one is an error, not a truncation.
inline constexpr std::size_t kWordBytesMax = 64 * 1024;
inline constexpr std::size_t kFileBytesMax = 64 * 1024 * 1024;
// Files read, each once however often included.
inline constexpr std::size_t kFilesMax = 64 * 1024;
// Directives of the whole tree, includes counted each time.
inline constexpr std::size_t kNodesMax = 2'000'000;
inline constexpr std::size_t kNestingMax = 64;  // Blocks within blocks, per file.
inline constexpr std::size_t kIncludeDepthMax = 32;

struct Directive;
class Compiler;  // compiler.h
struct Scope;    // compiler.h

// What a setter is given. It returns true, or says why not with fail().
struct Setting {
  Compiler& compiler;
  Scope& scope;            // The block the directive stands in.
  Scope* child = nullptr;  // kBlock: the scope its children will be compiled in.
  const Node& node;
  // The module's settings of this scope, already our own copy. A block's setter should leave them
  // alone: blocks before it in the same scope may already share or have copied them.
  void* settings;
  const Directive* directive;
  // True at the first use of this directive in this block (and when its default is applied). A
  // kList setter then starts a fresh list instead of adding to what was inherited; a kAppend setter
  // ignores it.
  bool first_here = true;
  // Place among all directives of the block as written, includes spliced in, from 0. Simple
  // directives are applied before blocks are compiled, so whatever runs in the order of the file
  // (set, rewrite, return, if) sorts by this.
  std::uint32_t order = 0;

  std::string_view name() const { return node.name.text; }
  std::span<const Word> words() const { return node.words; }
  std::string_view word(std::size_t i) const { return node.words[i].text; }
  Arena& arena() const;  // The configuration's own: lives as long as the tree.
  // Records an error at word i (kWholeDirective: at the name) and yields false.
  static constexpr std::size_t kWholeDirective = SIZE_MAX;
  template <class... T>
  bool fail(std::size_t i, fmt::format_string<T...> format, T&&... arguments) const {
    return fail_text(i, fmt::format(format, std::forward<T>(arguments)...));
  }
  template <class... T>
  void warn(std::size_t i, fmt::format_string<T...> format, T&&... arguments) const {
    warn_text(i, fmt::format(format, std::forward<T>(arguments)...));
  }
  // help: what is allowed instead, shown below the line; may be empty.
  bool fail_text(std::size_t i, std::string_view message, std::string_view help = {}) const;
  void warn_text(std::size_t i, std::string_view message) const;
};

using Setter = bool (*)(const Setting&);

struct Directive {
  std::string_view name;
  Context contexts;
  Kind kind = Kind::kValue;
  Arity arity = exactly(1);
  // Of the arguments, as the reference prints it: "on | off", "time", "file [level]".
  std::string_view syntax;
  Setter set = nullptr;
  // Text parsed by the same setter at the root (of a raw block: its lines); empty: the struct's own
  // initial value stands.
  std::string_view default_value;
  Inherit inherit = Inherit::kOverride;
  Stage stage = Stage::kWorks;
  std::string_view doc;  // One or two sentences.
  // kBlock: the context its children are compiled in; child->context is this when the setter is
  // called, which may change it.
  Context opens = Context::kNone;
};

// One per C++ module that has settings. settings types are trivially destructible and copyable,
// default-constructible.
struct Module {
  std::string_view name;  // As in src/: "http", "assets", "upstream".
  std::size_t settings_bytes = 0;
  std::size_t settings_align = 1;
  void (*construct)(void* at) = nullptr;
  void (*clone)(void* to, const void* from) = nullptr;
  std::span<const Directive> directives;
  // Where the compiler stores the module's place in every settings array.
  std::size_t* index = nullptr;
  // After the whole tree is compiled without error; may report errors. nullptr: nothing to do.
  void (*finish)(Compiler&) = nullptr;
  // The rows only stand in for what no other module declares: in each context in which another
  // module of the list has a row of the same name, that row wins. Only later.h's table does this.
  bool yields = false;
};

// The place of a settings type in SettingsView, set when a configuration is compiled (equal for all
// configurations of a process).
template <class S>
struct SettingsIndex {
  static inline std::size_t value = SIZE_MAX;
};

template <class S>
constexpr Module module(std::string_view name, std::span<const Directive> rows,
                        void (*finish)(Compiler&) = nullptr) {
  static_assert(std::is_trivially_destructible_v<S> && std::is_copy_constructible_v<S>);
  return {name,
          sizeof(S),
          alignof(S),
          [](void* at) { new (at) S(); },
          [](void* to, const void* from) { new (to) S(*static_cast<const S*>(from)); },
          rows,
          &SettingsIndex<S>::value,
          finish};
}

// All modules' settings of one block. Cheap to copy; lives in the configuration.
class SettingsView {
 public:
  SettingsView() = default;
  explicit SettingsView(const void* const* slots) : slots_(slots) {}
  template <class S>
  const S& get() const {
    return *static_cast<const S*>(slots_[SettingsIndex<S>::value]);
  }
  explicit operator bool() const { return slots_ != nullptr; }
  // The same block's settings: tells what a block was given itself from what it inherited.
  friend bool operator==(const SettingsView&, const SettingsView&) = default;

 private:
  const void* const* slots_ = nullptr;
};

}  // namespace corehttpd::conf
