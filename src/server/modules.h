// The list of modules: directives, variables, steps and transforms, each in its order.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::server {

std::span<const conf::Module* const> modules();
std::span<const http::Transform* const> transforms();
// Reads and compiles a configuration with all modules; errors are in diagnostics.
std::unique_ptr<conf::Configuration> load(const conf::Options& options, conf::Diagnostics& diagnostics);
// Like load(), with the file's text given: for tests of the server as a whole.
std::unique_ptr<conf::Configuration> load_text(std::string_view text, const conf::Options& options,
                                               conf::Diagnostics& diagnostics);

}  // namespace corehttpd::server
