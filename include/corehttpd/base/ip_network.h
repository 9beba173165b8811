// A range of client addresses: "192.0.2.0/24", "2001:db8::/32", one address, or "unix:".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "corehttpd/base/ip_address.h"

namespace corehttpd {

struct IpNetwork {
  IpAddress address;
  std::uint8_t bits = 0;  // Of the prefix; without meaning for unix sockets.

  // Nothing when malformed. Bits of the address after the prefix are ignored, as nginx does.
  static std::optional<IpNetwork> parse(std::string_view text);
  // The range of just this address.
  static IpNetwork of(const IpAddress& address);
  // An IPv4 client of an IPv6 socket (::ffff:192.0.2.1) is in the IPv4 range.
  bool contains(const IpAddress& client) const;
};

}  // namespace corehttpd
