// What of an origin's head goes to the client, and what it orders the server to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "corehttpd/http/exchange.h"
#include "corehttpd/upstream/settings.h"
#include "upstream/response_head.h"

namespace corehttpd::upstream {

// The X-Accel-... fields that are not ignored by configuration. X-Accel-Expires is accepted and has
// no effect before there is a cache.
struct AccelOrders {
  std::string_view file;                    // X-Sendfile, where it is acted upon.
  std::string_view redirect;                // X-Accel-Redirect; empty: none.
  std::string_view charset;                 // X-Accel-Charset.
  std::optional<bool> buffering;            // X-Accel-Buffering: yes or no.
  std::optional<std::uint64_t> limit_rate;  // X-Accel-Limit-Rate: bytes per second, 0: unlimited.
};
AccelOrders read_orders(const GatewaySettings& settings, const OriginHead& head);

// Fills exchange.response(). Left out: fields that belong to the connection (RFC 9110 §7.6.1), what
// is hidden by default or by configuration.
void apply_head(http::Exchange& exchange, const GatewaySettings& settings, const OriginHead& head,
                const AccelOrders& orders);

// Before an internal redirect ordered by X-Accel-Redirect: keeps the fields that nginx documents.
void keep_for_redirect(http::Exchange& exchange, const OriginHead& head);
// Prepares that redirect; false if its target is not a safe path.
bool redirect_to(http::Exchange& exchange, std::string_view target);

}  // namespace corehttpd::upstream
