// What a transform answers with when it can't let the response go out.
#pragma once

#include <cstdint>

#include "corehttpd/http/exchange.h"

namespace corehttpd::transform {

// Makes the response status with a short page, in place of body (cancelled; may be nullptr). The
// representation's own fields go, as they don't describe the page.
http::BodySource* refuse(http::Exchange& exchange, std::uint16_t status, http::BodySource* body);

// Takes what describes a representation off a response that doesn't carry one.
void drop_representation(http::ResponseHead& head);

}  // namespace corehttpd::transform
