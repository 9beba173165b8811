// What *_pass names: a server, a group, or text with variables that yields one per request.
#pragma once

#include <string_view>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/upstream/gateway.h"
#include "corehttpd/upstream/peers.h"

namespace corehttpd::handlers {

struct PassTarget {
  std::string_view text;
  conf::Position at;
  const upstream::Group* group = nullptr;  // Known when the configuration is compiled.
  expr::Program program;                   // Else.
  // To look the program's result up in.
  const upstream::Groups* groups = nullptr;
  const upstream::Backends* backends = nullptr;
};

// A target in the configuration's arena from the directive's only word; nullptr with the error
// recorded. Its group is found by resolve_targets().
const PassTarget* make_target(const conf::Setting& s);
// For a module's finish(): finds the groups of all targets made so far.
void resolve_targets(conf::Compiler& compiler);
// Says in pass whom to ask for this request: a group in the configuration or the exchange's arena,
// or a name to look up. 0, or the status to fail with when what the variables yield is neither
// (500), or a name while there is no resolver (502); a line in the error log then says so.
std::uint16_t find_origin(const PassTarget& target, http::Exchange& exchange,
                          upstream::GatewayPass& pass);

}  // namespace corehttpd::handlers
