// auth_basic: a user and password, checked against a file of the htpasswd kind. The file is asked
// at each request, so that a change holds at once; slow hashes are computed in the worker's offload
// threads.
#pragma once

#include <string_view>

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"

namespace corehttpd::access {

struct AuthBasicSettings {
  // What the challenge names; "off" (also as the value of variables): no password is asked for.
  expr::Program realm;
  bool has_realm = false;
  expr::Program user_file;
  bool has_user_file = false;
  // Where a relative user_file lives: the configuration file's directory, with its slash.
  std::string_view directory;

  bool is_on() const;
};

// auth_basic, auth_basic_user_file.
const conf::Module& auth_basic_module();

}  // namespace corehttpd::access
