// Blocks for tests that compile settings without the router: http, server, location. The compiled
// settings of each server and location are kept in the order of the file.
#pragma once

#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::test {

struct Blocks {};
inline std::vector<conf::SettingsView> kept_servers;
inline std::vector<conf::SettingsView> kept_locations;

inline bool keep_settings(const conf::Setting& s) {
  s.child->object = s.name() == "server" ? &kept_servers : &kept_locations;
  s.child->close = [](conf::Compiler&, conf::Scope& scope) {
    static_cast<std::vector<conf::SettingsView>*>(scope.object)->push_back(scope.view());
    return true;
  };
  return true;
}

inline constexpr conf::Directive kBlockDirectives[] = {
    {.name = "http",
     .contexts = conf::Context::kMain,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(0),
     .set = conf::set_nothing,
     .inherit = conf::Inherit::kNone,
     .doc = "Test.",
     .opens = conf::Context::kHttp},
    {.name = "location",
     .contexts = conf::Context::kServer | conf::Context::kLocation,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(1),
     .set = keep_settings,
     .inherit = conf::Inherit::kNone,
     .doc = "Test.",
     .opens = conf::Context::kLocation},
    {.name = "server",
     .contexts = conf::Context::kHttp,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(0),
     .set = keep_settings,
     .inherit = conf::Inherit::kNone,
     .doc = "Test.",
     .opens = conf::Context::kServer},
};
inline constexpr conf::Module kBlockModule = conf::module<Blocks>("test", kBlockDirectives);

}  // namespace corehttpd::test
