// Walking the addresses that proxies have written down, from the nearest to the farthest.
#pragma once

#include <span>
#include <string_view>

#include "corehttpd/base/ip_address.h"
#include "corehttpd/base/ip_network.h"

namespace corehttpd::access {

// "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]:80". kNone when it is none of them.
IpAddress parse_forwarded_address(std::string_view text);

// values: the lines of the field in the order of the request, each a list separated by commas or
// blanks, the nearest address last. While client is a trusted proxy the address that it reports
// takes its place; recursive: again and again, else once. What can't be read ends the walk. True if
// client has changed.
bool follow_forwarded(std::span<const std::string_view> values, std::span<const IpNetwork> trusted,
                      bool recursive, IpAddress& client);

}  // namespace corehttpd::access
