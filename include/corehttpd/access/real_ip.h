// The client's address behind trusted proxies: set_real_ip_from, real_ip_header, real_ip_recursive.
// Exchange::client() is changed for the whole request, so that access rules, $remote_addr and logs
// go by it; the connection's own address stays in $realip_remote_addr.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/ip_network.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::access {

struct RealIpSettings {
  ArenaVector<IpNetwork> trusted;  // Empty: off.
  // The field that holds addresses; empty: the PROXY header does.
  std::string_view header;
  bool recursive = false;
};

const conf::Module& real_ip_module();
// As nginx: once a request has been read, by the server's settings, and, where that changed
// nothing, in the location's preaccess phase.
std::span<const http::StepFactory> real_ip_factories();
// realip_remote_addr, realip_remote_port.
std::span<const expr::Variable> real_ip_variables();

}  // namespace corehttpd::access
