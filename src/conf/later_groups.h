// What later.cc builds its table from: directives that share contexts and a reason, by names.
#pragma once

#include <span>
#include <string_view>

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

struct LaterGroup {
  Stage stage;
  Context contexts;
  std::string_view doc;    // The reason that the notice or error gives.
  std::string_view names;  // Separated by blanks.
  Kind kind = Kind::kValue;
  std::string_view prefixes = {};  // Separated by blanks; each is put before each name.
};

std::span<const LaterGroup> later_core_groups();     // Processes, events, http core.
std::span<const LaterGroup> later_module_groups();   // nginx's other http modules, TLS, stream.
std::span<const LaterGroup> later_gateway_groups();  // proxy_, fastcgi_, scgi_, uwsgi_, grpc_…
std::span<const LaterGroup> later_refused_groups();  // Guards, and handlers that hide sources.

}  // namespace corehttpd::conf
