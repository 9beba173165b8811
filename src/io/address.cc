#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "corehttpd/base/text.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::io {
namespace {

const sockaddr_in& as_v4(const Address& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& as_v6(const Address& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

Address make_v4(const in_addr& host, std::uint16_t port) {
  Address address;
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr = host;
  in.sin_port = htons(port);
  std::memcpy(&address.storage, &in, sizeof in);
  address.length = sizeof in;
  return address;
}

Address make_v6(const in6_addr& host, std::uint16_t port) {
  Address address;
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_addr = host;
  in.sin6_port = htons(port);
  std::memcpy(&address.storage, &in, sizeof in);
  address.length = sizeof in;
  return address;
}

Result<Address> make_unix(std::string_view path) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  if (path.empty()) return fail(Code::kMalformed, "no path in the unix domain socket");
  if (path.size() >= sizeof un.sun_path)
    return fail(Code::kMalformed, "too long path in the unix domain socket");
  if (path.find('\0') != std::string_view::npos)
    return fail(Code::kMalformed, "invalid path in the unix domain socket");
  std::memcpy(un.sun_path, path.data(), path.size());
  Address address;
  std::memcpy(&address.storage, &un, sizeof un);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

// The bytes of a unix path, empty for an unnamed socket.
std::string_view path_of(const Address& address) {
  constexpr std::size_t kStart = offsetof(sockaddr_un, sun_path);
  if (address.length <= kStart) return {};
  const auto& un = reinterpret_cast<const sockaddr_un&>(address.storage);
  return {un.sun_path,
          strnlen(un.sun_path, std::min<std::size_t>(address.length - kStart, sizeof un.sun_path))};
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), text::is_digit);
}

// Copied to a terminated buffer, which inet_pton asks for.
bool parse_numeric(int family, std::string_view text, void* out) {
  char copy[INET6_ADDRSTRLEN];
  if (text.size() >= sizeof copy) return false;
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return inet_pton(family, copy, out) == 1;
}

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= 253 && std::all_of(text.begin(), text.end(), [](char c) {
    const char l = text::lower(c);
    return (l >= 'a' && l <= 'z') || text::is_digit(c) || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

std::uint16_t Address::port() const {
  if (family() == AF_INET) return ntohs(as_v4(*this).sin_port);
  if (family() == AF_INET6) return ntohs(as_v6(*this).sin6_port);
  return 0;
}

void Address::set_port(std::uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
}

bool Address::is_wildcard() const {
  if (family() == AF_INET) return as_v4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&as_v6(*this).sin6_addr) != 0;
  return false;
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &as_v4(*this).sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &as_v6(*this).sin6_addr, text, sizeof text);
  } else if (is_unix()) {
    return "unix:";
  }
  return text;
}

std::string Address::to_string() const {
  if (is_unix()) return host().append(path_of(*this));
  const std::string port_text = std::to_string(port());
  if (family() == AF_INET6) return "[" + host() + "]:" + port_text;
  return host() + ":" + port_text;
}

bool Address::operator==(const Address& other) const {
  if (family() != other.family()) return false;
  if (family() == AF_INET) {
    return as_v4(*this).sin_addr.s_addr == as_v4(other).sin_addr.s_addr && port() == other.port();
  }
  if (family() == AF_INET6) {
    return std::memcmp(&as_v6(*this).sin6_addr, &as_v6(other).sin6_addr, sizeof(in6_addr)) == 0 &&
           as_v6(*this).sin6_scope_id == as_v6(other).sin6_scope_id && port() == other.port();
  }
  return is_unix() ? path_of(*this) == path_of(other) : length == other.length;
}

Result<HostPort> split_host_port(std::string_view text, std::uint16_t default_port) {
  HostPort out;
  out.port = default_port;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return fail(Code::kMalformed, "invalid IPv6 address");
    out.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return fail(Code::kMalformed, "invalid IPv6 address");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (all_digits(text)) {
    out.host = "*";
    port = text;
    has_port = true;
  } else {
    const std::size_t colon = text.find(':');
    out.host = text.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
  }
  if (out.host.empty()) return fail(Code::kMalformed, "no host");
  if (has_port) {
    const auto value = text::parse_decimal(port);
    if (!value || *value == 0 || *value > 65535) return fail(Code::kMalformed, "invalid port");
    out.port = static_cast<std::uint16_t>(*value);
  }
  if (out.port == 0) return fail(Code::kMalformed, "no port");
  return out;
}

bool is_any_host(std::string_view text) { return all_digits(text) || text.starts_with('*'); }

Result<Address> parse_address(std::string_view text, std::uint16_t default_port) {
  constexpr std::string_view kUnix = "unix:";
  if (text::starts_with_ignore_case(text, kUnix)) return make_unix(text.substr(kUnix.size()));
  const HostPort parts = CORE_TRY(split_host_port(text, default_port));
  if (text.starts_with('[')) {
    in6_addr v6{};
    if (!parse_numeric(AF_INET6, parts.host, &v6))
      return fail(Code::kMalformed, "invalid IPv6 address");
    return make_v6(v6, parts.port);
  }
  in_addr v4{};
  if (parts.host == "*" || parse_numeric(AF_INET, parts.host, &v4)) return make_v4(v4, parts.port);
  if (!is_host_name(parts.host)) return fail(Code::kMalformed, "invalid host");
  return fail(Code::kNotFound, "host not found");
}

Result<std::vector<Address>> resolve_all(std::string_view host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(std::string(host).c_str(), nullptr, &hints, &found);
  switch (result) {
    case 0:
      break;
    case EAI_NONAME:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
      return fail(Code::kNotFound, "host not found", result);
    case EAI_AGAIN:
      return fail(Code::kUnavailable, "host not found: temporary failure in name resolution",
                  result);
    case EAI_MEMORY:
      return fail(Code::kUnavailable, "getaddrinfo()", ENOMEM);
    case EAI_SYSTEM:
      return std::unexpected(error_from_errno(errno, "getaddrinfo()"));
    default:
      return fail(Code::kSystem, "getaddrinfo()", result);
  }
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    address.set_port(port);
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  if (addresses.empty()) return fail(Code::kNotFound, "host not found");
  return addresses;
}

Result<Address> resolve(std::string_view host, std::uint16_t port) {
  return CORE_TRY(resolve_all(host, port)).front();
}

}  // namespace corehttpd::io
