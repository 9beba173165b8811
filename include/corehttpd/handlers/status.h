// stub_status: the server's counters as nginx's module prints them.
#pragma once

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::handlers {

const conf::Module& status_module();
const http::Step* make_status_step(const conf::SettingsView& settings, Arena& arena);
// $connections_active, $connections_reading, $connections_writing, $connections_waiting.
std::span<const expr::Variable> status_variables();

}  // namespace corehttpd::handlers
