// What the PROXY header of the connection said.
#include <charconv>

#include "corehttpd/base/text.h"
#include "expr/variables.h"

namespace corehttpd::expr {
namespace {

Value address_text(http::Exchange& exchange, const IpAddress& address) {
  char text[IpAddress::kTextMax];
  return exchange.arena().copy(address.format(text));
}

Value port_text(http::Exchange& exchange, const IpAddress& address) {
  if (address.port == 0) return std::string_view("");
  return decimal(exchange, address.port);
}

// The first value of that type; nothing also where the list is malformed before it.
Value find_tlv(std::span<const std::byte> tlvs, std::uint8_t type) {
  constexpr std::size_t kHead = 3;
  while (tlvs.size() >= kHead) {
    const std::size_t length =
        std::to_integer<std::size_t>(tlvs[1]) << 8 | std::to_integer<std::size_t>(tlvs[2]);
    if (length > tlvs.size() - kHead) return std::nullopt;
    if (std::to_integer<std::uint8_t>(tlvs[0]) == type) {
      return std::string_view(reinterpret_cast<const char*>(tlvs.data() + kHead), length);
    }
    tlvs = tlvs.subspan(kHead + length);
  }
  return std::nullopt;
}

struct TlvName {
  std::string_view name;
  std::uint8_t type;
};
// Sections 2.2.1 to 2.2.7 of the protocol.
constexpr TlvName kTlvs[] = {
    {"alpn", 0x01}, {"authority", 0x02}, {"unique_id", 0x05}, {"ssl", 0x20}, {"netns", 0x30}};
// Within the value of "ssl", after what the client has shown and verified.
constexpr TlvName kSslTlvs[] = {
    {"version", 0x21}, {"cn", 0x22}, {"cipher", 0x23}, {"sig_alg", 0x24}, {"key_alg", 0x25}};

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Value ssl_value(http::Exchange& exchange, std::span<const std::byte> tlvs, std::string_view name) {
  constexpr std::size_t kClientAndVerify = 5;
  const Value ssl = find_tlv(tlvs, 0x20);
  if (!ssl || ssl->size() < kClientAndVerify) return std::nullopt;
  const std::span<const std::byte> bytes = as_bytes(*ssl);
  if (name == "verify") {
    std::uint32_t verify = 0;
    for (std::size_t i = 1; i < kClientAndVerify; ++i)
      verify = verify << 8 | std::to_integer<std::uint32_t>(bytes[i]);
    return decimal(exchange, verify);
  }
  for (const TlvName& one : kSslTlvs) {
    if (one.name == name) return find_tlv(bytes.subspan(kClientAndVerify), one.type);
  }
  return std::nullopt;
}

}  // namespace

namespace get {

Value proxy_protocol_addr(http::Exchange& exchange, std::string_view) {
  const http::ProxyHeader& proxy = exchange.connection().proxy;
  return proxy ? address_text(exchange, proxy.source()) : std::nullopt;
}

Value proxy_protocol_port(http::Exchange& exchange, std::string_view) {
  const http::ProxyHeader& proxy = exchange.connection().proxy;
  return proxy ? port_text(exchange, proxy.source()) : std::nullopt;
}

Value proxy_protocol_server_addr(http::Exchange& exchange, std::string_view) {
  const http::ProxyHeader& proxy = exchange.connection().proxy;
  return proxy ? address_text(exchange, proxy.destination()) : std::nullopt;
}

Value proxy_protocol_server_port(http::Exchange& exchange, std::string_view) {
  const http::ProxyHeader& proxy = exchange.connection().proxy;
  return proxy ? port_text(exchange, proxy.destination()) : std::nullopt;
}

Value proxy_protocol_tlv(http::Exchange& exchange, std::string_view name) {
  const http::ProxyHeader& proxy = exchange.connection().proxy;
  if (!proxy) return std::nullopt;
  for (const TlvName& one : kTlvs) {
    if (one.name == name) return find_tlv(proxy.tlvs(), one.type);
  }
  constexpr std::string_view kSsl = "ssl_";
  if (name.starts_with(kSsl)) return ssl_value(exchange, proxy.tlvs(), name.substr(kSsl.size()));
  if (!name.starts_with("0x")) return std::nullopt;
  std::uint8_t type = 0;
  const auto [end, error] = std::from_chars(name.data() + 2, name.data() + name.size(), type, 16);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return find_tlv(proxy.tlvs(), type);
}

}  // namespace get
}  // namespace corehttpd::expr
