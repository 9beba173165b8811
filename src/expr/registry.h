// What the registry knows, for the files of this module.
#pragma once

#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/expr/program.h"
#include "corehttpd/expr/variable.h"

namespace corehttpd::expr {

struct UserVariable {
  std::uint32_t slot = 0;
  bool warn_unset = false;
  Registry::Compute compute = nullptr;
  const void* context = nullptr;
};

// A part whose name is to be looked up when everything has been compiled.
struct Unresolved {
  Part* part = nullptr;
  conf::Position at;
  std::size_t width = 1;
};

struct RegistryData {
  std::unordered_map<std::string_view, const Variable*> builtins;
  std::vector<const Variable*> families;
  std::unordered_map<std::string_view, UserVariable> users;
  std::uint32_t slots = 0;
  std::vector<Unresolved> unresolved;
  bool complete = false;  // All directives have been compiled: later programs resolve at once.

  static RegistryData& of(Registry& registry, Arena& arena) {
    if (registry.data_ == nullptr) registry.data_ = arena.make<RegistryData>();
    return *registry.data_;
  }
  static RegistryData& of(conf::Compiler& compiler) {
    return of(compiler.object_or_make<Registry>(), compiler.arena());
  }
};

// Resolves all parts; unknown names are errors.
void resolve_programs(conf::Compiler& compiler);

// "map source $name { … }".
bool set_map(const conf::Setting& setting);

}  // namespace corehttpd::expr
