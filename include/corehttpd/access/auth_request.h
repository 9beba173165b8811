// auth_request: asks a location of the site, by a subrequest, whether the request may go on. 2xx
// lets it; 401 (with the subrequest's WWW-Authenticate) and 403 refuse it; anything else is a fault
// of the set-up and answered by 500. One of the guards of access.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/expr/variable.h"

namespace corehttpd::access {

// auth_request_set: evaluated in the subrequest when it is complete, whatever it said.
struct AuthVariable {
  std::uint32_t slot = 0;
  const expr::Variable* built_in = nullptr;  // Assigned instead of the slot.
  expr::Program value;
};

struct AuthRequestSettings {
  std::string_view uri;  // Empty: off. As written, with arguments after '?'.
  std::span<const AuthVariable> variables;
};

const conf::Module& auth_request_module();

}  // namespace corehttpd::access
