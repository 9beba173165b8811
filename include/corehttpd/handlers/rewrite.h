// nginx's rewrite module: set, if, return, rewrite, break, rewrite_log. The directives of a block
// run in the order they were written in, an "if" block's own at its place.
#pragma once

#include <span>

#include "corehttpd/conf/directive.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::handlers {

const conf::Module& rewrite_module();
// Server blocks' directives run in Phase::kServerRewrite, locations' in Phase::kRewrite.
std::span<const http::StepFactory> rewrite_factories();

}  // namespace corehttpd::handlers
