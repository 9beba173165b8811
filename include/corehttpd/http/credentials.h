// The user and password that a request brings for Basic authentication (RFC 7617).
#pragma once

#include <string_view>

#include "corehttpd/http/exchange.h"

namespace corehttpd::http {

struct BasicCredentials {
  std::string_view user;      // Not empty; no colon in it. Any other bytes may be.
  std::string_view password;  // May be empty.
};

// Decoded once per exchange and kept in its arena. nullptr: the field Authorization is missing, of
// another scheme or malformed.
const BasicCredentials* basic_credentials(Exchange& exchange);

}  // namespace corehttpd::http
