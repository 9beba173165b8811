// The list of modules: directives, variables, steps and transforms, each in its order.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "corehttpd/base/log.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::server {

std::span<const conf::Module* const> modules();
std::span<const http::Transform* const> transforms();
// Reads and compiles a configuration with all modules; errors are in diagnostics. error_log: -e's
// file, which takes the messages of the process where the main context has no error_log of its own;
// empty: kDefaultErrorLog, or stderr where that has no directory.
std::unique_ptr<conf::Configuration> load(const conf::Options& options,
                                          conf::Diagnostics& diagnostics,
                                          const std::string& error_log);
// Like load(), with the file's text given and no default log: for tests of the server as a whole.
std::unique_ptr<conf::Configuration> load_text(std::string_view text, const conf::Options& options,
                                               conf::Diagnostics& diagnostics);
// Where the process itself logs.
const LogTarget* process_log_of(const conf::Configuration& configuration);

}  // namespace corehttpd::server
