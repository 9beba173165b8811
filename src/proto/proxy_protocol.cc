#include "proto/proxy_protocol.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "corehttpd/base/text.h"

namespace corehttpd::proto {
namespace {

using Verdict = ProxyHeaderScan::Verdict;

constexpr std::string_view kLine = "PROXY ";
constexpr std::string_view kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr std::size_t kBinaryHead = 16;  // Signature, version and command, family, length.

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::size_t>(bytes[at]) << 8 | std::to_integer<std::size_t>(bytes[at + 1]);
}

ProxyHeaderScan broken(const char* problem) { return {Verdict::kBroken, 0, problem}; }

ProxyHeaderScan scan_line(std::string_view text) {
  const std::size_t end = text.substr(0, kProxyLineMax).find('\n');
  if (end == std::string_view::npos) {
    return text.size() < kProxyLineMax ? ProxyHeaderScan{} : broken("broken header");
  }
  if (text[end - 1] != '\r') return broken("broken header");
  return {Verdict::kComplete, end + 1, ""};
}

ProxyHeaderScan scan_binary(std::span<const std::byte> bytes) {
  if (bytes.size() < kBinaryHead) return {};
  const std::size_t size = kBinaryHead + number_at(bytes, 14);
  if (std::to_integer<unsigned>(bytes[12]) >> 4 != 2)
    return broken("unknown PROXY protocol version");
  if (size > kProxyHeaderMax) return broken("header is too large");
  if (bytes.size() < size) return {};
  return {Verdict::kComplete, size, ""};
}

Result<http::ProxyHeader> malformed() {
  return fail(Code::kMalformed, "broken header", 0, Party::kClient);
}

// The text up to the next blank, which is consumed; the blank must be there unless it is the last.
std::optional<std::string_view> next_word(std::string_view& rest, bool last) {
  const std::size_t end = rest.find(' ');
  if ((end == std::string_view::npos) != last) return std::nullopt;
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(last ? rest.size() : end + 1);
  return word;
}

bool read_address(std::string_view text, IpAddress::Family family, IpAddress& out) {
  out = IpAddress::parse(text);
  return out.family == family;
}

// No sign, no leading zero, as the protocol has it.
bool read_port(std::string_view text, IpAddress& out) {
  if (text.size() > 1 && text.front() == '0') return false;
  const auto port = text::parse_decimal(text);
  if (!port || *port > 65535) return false;
  out.port = static_cast<std::uint16_t>(*port);
  return true;
}

Result<http::ProxyHeader> parse_line(std::string_view line) {
  line.remove_prefix(kLine.size());
  line.remove_suffix(2);
  // What follows UNKNOWN is to be ignored.
  if (line == "UNKNOWN" || line.starts_with("UNKNOWN ")) return http::ProxyHeader();
  const bool v4 = line.starts_with("TCP4 ");
  if (!v4 && !line.starts_with("TCP6 ")) return malformed();
  line.remove_prefix(5);
  const auto family = v4 ? IpAddress::Family::kV4 : IpAddress::Family::kV6;
  std::string_view words[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto word = next_word(line, i == 3);
    if (!word) return malformed();
    words[i] = *word;
  }
  IpAddress source, destination;
  if (!read_address(words[0], family, source) || !read_address(words[1], family, destination) ||
      !read_port(words[2], source) || !read_port(words[3], destination))
    return malformed();
  return http::ProxyHeader(source, destination, {});
}

IpAddress address_at(std::span<const std::byte> bytes, std::size_t at, std::size_t length,
                     std::size_t port_at) {
  IpAddress address;
  address.family = length == 4 ? IpAddress::Family::kV4 : IpAddress::Family::kV6;
  std::memcpy(address.bytes.data(), bytes.data() + at, length);
  address.port = static_cast<std::uint16_t>(number_at(bytes, port_at));
  return address;
}

Result<http::ProxyHeader> parse_binary(std::span<const std::byte> header) {
  const unsigned command = std::to_integer<unsigned>(header[12]) & 0x0f;
  const unsigned family = std::to_integer<unsigned>(header[13]) >> 4;
  const unsigned transport = std::to_integer<unsigned>(header[13]) & 0x0f;
  constexpr unsigned kLocal = 0, kProxy = 1, kStream = 1, kV4 = 1, kV6 = 2, kUnix = 3;
  if (command == kLocal) return http::ProxyHeader();
  // Receivers must drop connections with other values.
  if (command != kProxy || family > kUnix || transport > 2) return malformed();
  if (transport != kStream || (family != kV4 && family != kV6)) return http::ProxyHeader();
  const std::size_t length = family == kV4 ? 4 : 16;
  const std::span<const std::byte> body = header.subspan(kBinaryHead);
  const std::size_t addresses = 2 * length + 4;
  if (body.size() < addresses) return malformed();
  return http::ProxyHeader(address_at(body, 0, length, 2 * length),
                           address_at(body, length, length, 2 * length + 2),
                           body.subspan(addresses));
}

}  // namespace

ProxyHeaderScan scan_proxy_header(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  // The two versions differ in their first byte.
  const bool binary = !text.empty() && text.front() == kSignature.front();
  const std::string_view beginning = binary ? kSignature : kLine;
  const std::size_t known = std::min(text.size(), beginning.size());
  if (text.substr(0, known) != beginning.substr(0, known)) return broken("broken header");
  if (known < beginning.size()) return {};
  return binary ? scan_binary(bytes) : scan_line(text);
}

Result<http::ProxyHeader> parse_proxy_header(std::span<const std::byte> header) {
  return as_text(header).starts_with(kLine) ? parse_line(as_text(header)) : parse_binary(header);
}

}  // namespace corehttpd::proto
