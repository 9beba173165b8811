// The expires directive: what it says and what comes of it.
#pragma once

#include <optional>
#include <string_view>

#include "corehttpd/http/exchange.h"
#include "corehttpd/transform/transforms.h"

namespace corehttpd::transform {

// "off", "epoch", "max", "30d", "-1", "+1h", "@15h30m". Nothing when malformed; "modified" and '@'
// exclude each other.
std::optional<Expires> parse_expires(std::string_view text, bool modified);

// Sets Expires and Cache-Control of the response.
void apply_expires(http::Exchange& exchange, const Expires& expires);

}  // namespace corehttpd::transform
