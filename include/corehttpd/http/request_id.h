// $request_id: 32 hexadecimal digits of a random number, made when it is first asked for. Logs and
// origins see the same one.
#pragma once

#include <string_view>

#include "corehttpd/http/exchange.h"

namespace corehttpd::http {

// Of the main request, for subrequests too. Lives as long as it. Empty if the system has no random
// numbers.
std::string_view request_id(Exchange& exchange);

}  // namespace corehttpd::http
