// absolute_redirect, server_name_in_redirect and port_in_redirect: what becomes of a Location that
// is a path. The same for all protocols.
#pragma once

#include <string_view>

namespace corehttpd::http {

class Exchange;

// response().location as it is to be sent: a value that begins with "/" gets scheme, host and port
// in front unless absolute_redirect is off. The host is the request's, or the first server_name
// (server_name_in_redirect, or without a host), or the local address; the port is the listener's
// (port_in_redirect), left out when it is the scheme's own. In the exchange's arena, or the value
// itself.
std::string_view absolute_location(Exchange& exchange);

}  // namespace corehttpd::http
