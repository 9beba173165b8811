// From settings to the Store, in the master.
#pragma once

#include <string_view>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/tls/settings.h"

namespace corehttpd::tls {

// Not a file that could be looked at now: nginx's "data:…" and "engine:…", and names with
// variables.
bool is_plain_path(std::string_view text);
// Whether the value of that ssl_conf_command is a path.
bool command_names_file(std::string_view name);
// Whether the library knows the command and takes the value; false with the error recorded.
bool check_command(const conf::Setting& setting, const ConfCommand& command);
// Loads what the TLS sites name and publishes the Store. Errors are recorded, sites whose files
// cannot be used are degraded.
void build_store(conf::Compiler& compiler);

}  // namespace corehttpd::tls
