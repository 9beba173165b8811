// Which of its variants (identity, gzip) a response goes out as.
#pragma once

#include <string_view>

#include "corehttpd/http/exchange.h"

namespace corehttpd::transform {

// Accept-Encoding allows gzip and does not prefer identity (RFC 9110 §12.5.3). The order of the
// list means nothing; an empty list is no consent.
bool accepts_gzip(std::string_view accept_encoding);

// For a 200 that is about to become a 304: gives it the ETag and Vary of the variant that the
// client would be sent now (RFC 9110 §15.4.5).
void describe_variant(http::Exchange& exchange);

}  // namespace corehttpd::transform
