// Files that should not be served: .git and .env below a document root.
#pragma once

#include <span>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::server {

// Warns of each site that would hand out what lies there now. factories: those of pipelines.
void warn_of_exposed_files(conf::Configuration& configuration,
                           std::span<const http::StepFactory> factories,
                           conf::Diagnostics& diagnostics);

}  // namespace corehttpd::server
