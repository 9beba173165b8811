// X-Sendfile, as lighttpd's and Apache's applications know it.
#pragma once

#include <span>
#include <string_view>

#include "corehttpd/http/exchange.h"
#include "corehttpd/upstream/gateway.h"

namespace corehttpd::handlers {

// Carries the order out: answers with the file if it lies below the document root or one of
// folders, all absolute; else 403. To be yielded by a step, which may be run again.
http::StepOutcome send_named_file(http::Exchange& exchange, upstream::FileOrder& order,
                                  std::span<const std::string_view> folders);

}  // namespace corehttpd::handlers
