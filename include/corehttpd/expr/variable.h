// Variables ($uri, $http_x, $arg_x…). Modules declare theirs in constexpr tables, which the server
// hands to the registry before a configuration is compiled. Unknown names are errors at compile
// time (unknown "x" variable).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/conf/compiler.h"

namespace corehttpd::http {
class Exchange;
}

namespace corehttpd::expr {

// A value: not set (nothing) renders as "" in strings and as "-" in logs. Views live as long as the
// exchange.
using Value = std::optional<std::string_view>;

// suffix: what follows the prefix of a family ($http_NAME: "name"); empty for plain variables.
using Getter = Value (*)(http::Exchange& exchange, std::string_view suffix);

struct Variable {
  std::string_view name;  // "uri"; of a family its prefix: "http_".
  Getter get = nullptr;
  bool family = false;      // Prefix of a family.
  bool assignable = false;  // "set" may change it (args, limit_rate…), through assign.
  void (*assign)(http::Exchange& exchange, std::string_view value) = nullptr;
  std::string_view doc = {};
};

struct RegistryData;

// Names known while a configuration is compiled, and the slots of variables that the configuration
// itself makes (set, map, named captures). An object of the configuration, made by prepare().
class Registry {
 public:
  // Adds a module's table. The table is static.
  void add(std::span<const Variable> table);
  // Who declares a user variable decides what its reading before any writing means: "set" warns.
  enum class Unset : std::uint8_t { kSilent, kWarn };
  // Declares a user variable; returns its slot in every exchange's slot array. The same name again:
  // the same slot. name must live as long as the configuration, without "$". Built-in variables
  // must have been asked for before (builtin()).
  std::uint32_t declare(std::string_view name, Unset unset = Unset::kSilent);
  // A user variable computed on demand (map, geo); context is the module's own. A later definition
  // replaces an earlier one, as nginx has it; false if the name is a built-in's.
  using Compute = Value (*)(http::Exchange& exchange, const void* context);
  bool define(std::string_view name, Compute compute, const void* context);
  // A slot without a name, for a module that caches a value per request.
  std::uint32_t anonymous_slot();
  // The built-in of exactly that name; families don't count, since users may define $http_x.
  const Variable* builtin(std::string_view name) const;
  struct Found {
    const Variable* variable = nullptr;  // A built-in one (family: suffix is set).
    std::string_view suffix;
    bool user = false;
    std::uint32_t slot = 0;  // Of a user variable.
    bool warn_unset = false;
    Compute compute = nullptr;
    const void* context = nullptr;
  };
  // User definitions are looked for after all directives were compiled (a map may follow its use),
  // so resolution is delayed: programs keep a reference by name and resolve in finish().
  std::optional<Found> find(std::string_view name) const;
  std::uint32_t slot_count() const;

 private:
  friend struct RegistryData;
  RegistryData* data_ = nullptr;
};

// The registry of the configuration being compiled, made when it is first asked for.
Registry& registry(conf::Compiler& compiler);

// The built-in variables of http ($uri, $args, $host, $request_*, $http_*, $arg_*, $cookie_*,
// $sent_http_*, $remote_addr, $status…).
std::span<const Variable> core_variables();

// What $nginx_version and configurations that ask for a version see.
inline constexpr std::string_view kNginxVersion = "1.28.0";

// Value of a user variable of this exchange (or its main one for subrequests, as nginx shares
// them).
Value get_slot(http::Exchange& exchange, std::uint32_t slot);
// value must live as long as the exchange; of a subrequest it is copied to the main one.
void set_slot(http::Exchange& exchange, std::uint32_t slot, std::string_view value);

}  // namespace corehttpd::expr
