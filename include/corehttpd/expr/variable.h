// Variables ($uri, $http_x, $arg_x…). Modules declare theirs in constexpr tables, which the server hands to the registry before a
// configuration is compiled. Unknown names are errors at compile time ("unknown "x" variable").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/conf/compiler.h"

namespace corehttpd::http { class Exchange; }

namespace corehttpd::expr {

// A value: not set (nothing) renders as "" in strings and as "-" in logs. Views live as long as the exchange.
using Value = std::optional<std::string_view>;

// suffix: what follows the prefix of a family ($http_NAME: "name"); empty for plain variables.
using Getter = Value (*)(http::Exchange& exchange, std::string_view suffix);

struct Variable {
  std::string_view name;    // "uri"; of a family its prefix: "http_".
  Getter get;
  bool family = false;      // Prefix of a family.
  bool assignable = false;  // "set" may change it (args, limit_rate…), through assign.
  void (*assign)(http::Exchange& exchange, std::string_view value) = nullptr;
  std::string_view doc = {};
};

struct Program;

// Names known while a configuration is compiled, and the slots of variables that configuration itself makes (set, map, named captures).
class Registry {
 public:
  // Adds a module's table. The table is static.
  void add(std::span<const Variable> table);
  // Declares a user variable; returns its slot in every exchange's slot array. The same name again: the same slot.
  std::uint32_t declare(std::string_view name);
  // A user variable computed on demand (map, geo); context is the module's own.
  using Compute = Value (*)(http::Exchange& exchange, const void* context);
  bool define(std::string_view name, Compute compute, const void* context);
  struct Found {
    const Variable* variable = nullptr;  // A built-in one (family: suffix is set).
    std::string_view suffix;
    bool user = false;
    std::uint32_t slot = 0;              // Of a user variable.
    Compute compute = nullptr;
    const void* context = nullptr;
  };
  // User definitions are looked for after all directives were compiled (a map may follow its use), so resolution is delayed: programs
  // keep a reference by name and resolve in finish().
  std::optional<Found> find(std::string_view name) const;
  std::uint32_t slot_count() const;

 private:
  friend struct RegistryData;
  struct RegistryData* data_ = nullptr;
};

// The built-in variables of http ($uri, $args, $host, $request_*, $http_*, $arg_*, $cookie_*, $sent_http_*, $remote_addr, $status…).
std::span<const Variable> core_variables();

// Value of a user variable of this exchange (or its main one for subrequests, as nginx shares them).
Value get_slot(http::Exchange& exchange, std::uint32_t slot);
void set_slot(http::Exchange& exchange, std::uint32_t slot, std::string_view value);

}  // namespace corehttpd::expr
