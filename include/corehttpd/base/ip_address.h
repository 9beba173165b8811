// An address with port in 20 bytes: connections keep two of them, so sockaddr_storage's 128 bytes
// each would be a waste.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace corehttpd {

struct IpAddress {
  enum class Family : std::uint8_t { kNone, kV4, kV6, kUnix };
  std::array<std::uint8_t, 16> bytes{};  // Network order; IPv4 uses the first four. IPv4-mapped
                                         // IPv6 stays IPv6, as nginx has it.
  std::uint16_t port = 0;                // Host order.
  Family family = Family::kNone;

  static IpAddress from_sockaddr(const sockaddr* address);
  // Numeric text without port; kNone when it is none.
  static IpAddress parse(std::string_view text);
  std::span<const std::uint8_t> binary() const {
    return {bytes.data(), family == Family::kV4 ? 4u : family == Family::kV6 ? 16u : 0u};
  }
  // "127.0.0.1", "::1", "unix:". Writes at most kTextMax bytes, returns the view into out.
  static constexpr std::size_t kTextMax = 46;
  std::string_view format(char* out) const;
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

}  // namespace corehttpd
