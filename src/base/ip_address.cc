#include "corehttpd/base/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace corehttpd {

IpAddress IpAddress::from_sockaddr(const sockaddr* address) {
  IpAddress ip;
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof(in));
    ip.family = Family::kV4;
    ip.port = ntohs(in.sin_port);
    std::memcpy(ip.bytes.data(), &in.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof(in));
    ip.family = Family::kV6;
    ip.port = ntohs(in.sin6_port);
    std::memcpy(ip.bytes.data(), &in.sin6_addr, 16);
  } else if (address->sa_family == AF_UNIX) {
    ip.family = Family::kUnix;
  }
  return ip;
}

IpAddress IpAddress::parse(std::string_view text) {
  IpAddress ip;
  char zero_ended[kTextMax + 1];
  if (text.size() > kTextMax) return ip;
  if (!text.empty()) std::memcpy(zero_ended, text.data(), text.size());
  zero_ended[text.size()] = '\0';
  if (inet_pton(AF_INET, zero_ended, ip.bytes.data()) == 1) {
    ip.family = Family::kV4;
  } else if (inet_pton(AF_INET6, zero_ended, ip.bytes.data()) == 1) {
    ip.family = Family::kV6;
  }
  return ip;
}

std::string_view IpAddress::format(char* out) const {
  switch (family) {
    case Family::kV4: {  // By hand: it is written into every log line.
      char* at = out;
      for (int i = 0; i < 4; ++i) {
        const unsigned value = bytes[static_cast<std::size_t>(i)];
        if (i != 0) *at++ = '.';
        if (value >= 100) *at++ = static_cast<char>('0' + value / 100);
        if (value >= 10) *at++ = static_cast<char>('0' + value / 10 % 10);
        *at++ = static_cast<char>('0' + value % 10);
      }
      return {out, static_cast<std::size_t>(at - out)};
    }
    case Family::kV6: {
      char text[INET6_ADDRSTRLEN];
      inet_ntop(AF_INET6, bytes.data(), text, sizeof(text));
      const std::size_t length = std::strlen(text);
      std::memcpy(out, text, length);
      return {out, length};
    }
    case Family::kUnix:
      std::memcpy(out, "unix:", 5);
      return {out, 5};
    case Family::kNone:
      break;
  }
  return {out, 0};
}

}  // namespace corehttpd
