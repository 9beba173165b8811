// The list of modules: directives, variables, steps and transforms, each in its order.
#pragma once

#include <memory>
#include <span>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::server {

std::span<const conf::Module* const> modules();
std::span<const http::Transform* const> transforms();
// Reads and compiles a configuration with all modules; errors are in diagnostics.
std::unique_ptr<conf::Configuration> load(const conf::Options& options, conf::Diagnostics& diagnostics);

}  // namespace corehttpd::server
