// Field sections of responses for the library: lower-case names, no connection-specific fields (RFC
// 9113 §8.2). Everything points into the exchange's arena or to literals, so that nothing is copied
// once more.
#pragma once

#include <nghttp2/nghttp2.h>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::h2 {

using NameValues = ArenaVector<nghttp2_nv>;

// The head of a final response, with the fields that the transport adds (date, server,
// content-length…).
NameValues encode_head(http::Exchange& exchange, const http::ResponseHead& head);
// An interim response (1xx); fields need not outlive the call.
NameValues encode_informational(Arena& arena, std::uint16_t status, const http::FieldList& fields);
// Trailers: without pseudo-fields and without what has no place in a trailer section.
NameValues encode_trailers(Arena& arena, const http::FieldList& fields);

}  // namespace corehttpd::h2
