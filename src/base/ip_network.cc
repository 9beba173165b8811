#include "corehttpd/base/ip_network.h"

#include <algorithm>
#include <cstring>

#include "corehttpd/base/text.h"

namespace corehttpd {
namespace {

using Family = IpAddress::Family;

IpAddress unmapped(const IpAddress& address) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (address.family != Family::kV6 ||
      std::memcmp(address.bytes.data(), kMapped, sizeof(kMapped)) != 0)
    return address;
  IpAddress v4;
  v4.family = Family::kV4;
  std::copy_n(address.bytes.begin() + 12, 4, v4.bytes.begin());
  return v4;
}

}  // namespace

std::optional<IpNetwork> IpNetwork::parse(std::string_view text) {
  IpNetwork network;
  if (text == "unix:") {
    network.address.family = Family::kUnix;
    return network;
  }
  const std::size_t slash = text.find('/');
  network = of(IpAddress::parse(text.substr(0, slash)));
  if (network.address.family == Family::kNone) return std::nullopt;
  if (slash == std::string_view::npos) return network;
  const auto bits = text::parse_decimal(text.substr(slash + 1));
  if (!bits || *bits > network.bits) return std::nullopt;
  network.bits = static_cast<std::uint8_t>(*bits);
  return network;
}

IpNetwork IpNetwork::of(const IpAddress& address) {
  IpNetwork network;
  network.address = address;
  network.bits = static_cast<std::uint8_t>(address.binary().size() * 8);
  return network;
}

bool IpNetwork::contains(const IpAddress& client) const {
  if (address.family == Family::kUnix) return client.family == Family::kUnix;
  const IpAddress other = address.family == Family::kV4 ? unmapped(client) : client;
  if (other.family != address.family) return false;
  const std::size_t whole = bits / 8;
  if (std::memcmp(address.bytes.data(), other.bytes.data(), whole) != 0) return false;
  if (bits % 8 == 0) return true;
  const int mask = 0xff << (8 - bits % 8) & 0xff;
  return (address.bytes[whole] & mask) == (other.bytes[whole] & mask);
}

}  // namespace corehttpd
