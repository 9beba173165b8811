// Compiles a syntax tree with the modules' tables into settings. Used by setters (through Setting)
// and by the server, which starts it. Everything it makes lives in a Configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "corehttpd/base/error.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/conf/sites.h"

namespace corehttpd::conf {

// A block being compiled. Setters of block directives attach what they build (a server, a location)
// as object.
struct Scope {
  Context context = Context::kMain;
  Scope* parent = nullptr;
  const void** settings = nullptr;  // One slot per module.
  const Node* node = nullptr;       // nullptr for the root.
  void* object = nullptr;           // Type known to the module that opened the block.
  std::string_view opened_by;       // Name of the block directive: "server".
  std::uint64_t owned = 0;  // Bit per module: its slot is this scope's own copy, not its parent's.
  // Called when the children have been compiled without error, in the order of the file; nullptr:
  // nothing to do.
  bool (*close)(Compiler&, Scope&) = nullptr;
  SettingsView view() const { return SettingsView(settings); }
};

// The compiled configuration: immutable once made, shared copy-on-write by workers.
class Configuration {
 public:
  Configuration() : arena_(64 * 1024) {}
  Arena& arena() { return arena_; }
  Sites& sites() { return sites_; }
  const Sites& sites() const { return sites_; }
  // Settings of the main context.
  SettingsView root;
  // Objects that modules publish for the server by type: route::Tree, upstream::Set…
  template <class T>
  T* object() const {
    return static_cast<T*>(object_at(&Tag<T>::tag));
  }
  template <class T>
  void set_object(T* object) {
    set_object_at(&Tag<T>::tag, object);
  }

 private:
  template <class T>
  struct Tag {
    static inline char tag;
  };
  void* object_at(const void* tag) const {
    for (auto& [key, value] : objects_)
      if (key == tag) return value;
    return nullptr;
  }
  void set_object_at(const void* tag, void* object) {
    for (auto& [key, value] : objects_)
      if (key == tag) {
        value = object;
        return;
      }
    objects_.emplace_back(tag, object);
  }
  Arena arena_;
  Sites sites_;
  std::vector<std::pair<const void*, void*>> objects_;
};

struct Options {
  std::string prefix;  // -p: what relative paths of files served, logs and pids are taken from.
                       // Ends in '/'.
  std::string path;    // -c: the file. Relative includes are taken from its directory.
  std::string global_text;         // -g: directives before the file's.
  std::string fallback_directory;  // Where conf/'s shipped mime.types, fastcgi_params… are: used,
                                   // with a notice, for an include of /etc/nginx/NAME that does not
                                   // exist. Empty: none.
};

class Compiler {
 public:
  Compiler(Configuration& configuration, Diagnostics& diagnostics, const Options& options)
      : configuration_(configuration), diagnostics_(diagnostics), options_(options) {}
  Configuration& configuration() { return configuration_; }
  Arena& arena() { return configuration_.arena(); }
  Diagnostics& diagnostics() { return diagnostics_; }
  const Options& options() const { return options_; }
  // Objects that live while compiling and after: shorthand for the configuration's.
  template <class T>
  T* object() {
    return configuration_.object<T>();
  }
  template <class T>
  T& object_or_make() {
    if (T* found = configuration_.object<T>()) return *found;
    T* made = arena().make<T>();
    configuration_.set_object<T>(made);
    return *made;
  }
  // Reports a fault of the site that scope belongs to; see Sites. The site goes on without what it
  // broke, and the module that reports it sees to that.
  void degrade_site(const Scope& scope, SiteFault::Kind kind, const Position& at,
                    std::string_view reason, std::size_t width = 1);
  // The scope's own copy of a module's settings, made if it still shares its parent's.
  template <class S>
  S& settings(Scope& scope) {
    return *static_cast<S*>(own_settings(scope, SettingsIndex<S>::value));
  }
  void* own_settings(Scope& scope, std::size_t module_index);
  // path relative to prefix made absolute; text without variables only. NUL-terminated, lives as
  // long as the configuration.
  std::string_view full_path(std::string_view path);
  // Compiles children of node in scope, as a block setter may need for blocks that it opens itself
  // (limit_except).
  bool compile_children(const Node& node, Scope& scope);
  // A child scope with the parent's settings shared, in the configuration's arena.
  Scope& make_scope(Scope& parent, Context context, const Node* node);

 private:
  friend class Compilation;
  Configuration& configuration_;
  Diagnostics& diagnostics_;
  const Options& options_;
  std::span<const Module* const> modules_;
  class TreeCompiler* tree_ = nullptr;
};

// Reads options.path with all includes, compiles it. nullptr when there were errors (all of them
// are in diagnostics). prepare, if given, runs before anything is compiled: it registers what
// setters look up (expr's variables).
std::unique_ptr<Configuration> compile(const Options& options,
                                       std::span<const Module* const> modules,
                                       Diagnostics& diagnostics,
                                       void (*prepare)(Compiler&) = nullptr);
// Like compile(), with the file's text given: for tests and fuzzing. Includes are still read from
// disk.
std::unique_ptr<Configuration> compile_text(std::string_view text, const Options& options,
                                            std::span<const Module* const> modules,
                                            Diagnostics& diagnostics,
                                            void (*prepare)(Compiler&) = nullptr);
// -T: every file read, as nginx dumps it ("# configuration file PATH:" and the text).
Result<std::string> dump(const Options& options, Diagnostics& diagnostics);

}  // namespace corehttpd::conf
