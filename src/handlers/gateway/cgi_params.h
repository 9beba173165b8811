// The parameters of a request to a FastCGI, SCGI or uwsgi server: those configured, then the
// request's fields as HTTP_….
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/exchange.h"
#include "upstream/fastcgi_codec.h"

namespace corehttpd::handlers {

struct CgiParams;

// In the exchange's arena. configured: may be nullptr; pass_fields: with the request's fields.
// body_bytes: what will be sent of the body, which CONTENT_LENGTH has to agree with.
ArenaVector<upstream::fastcgi::Param> make_params(http::Exchange& exchange,
                                                  const CgiParams* configured, bool pass_fields,
                                                  std::uint64_t body_bytes);

// The request's fields as CGI has them (RFC 3875 §4.1.18): upper case, '-' as '_', HTTP_ in front;
// repeated ones joined. Of two names that would become one (X-A and X_A) only the dashed one is
// passed, or the first; Proxy never is, nor what has parameters of its own.
void add_http_params(http::Exchange& exchange, std::span<const std::string_view> overridden,
                     ArenaVector<upstream::fastcgi::Param>& out);

}  // namespace corehttpd::handlers
