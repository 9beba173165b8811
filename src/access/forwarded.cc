#include "access/forwarded.h"

#include <algorithm>

#include "corehttpd/base/text.h"

namespace corehttpd::access {
namespace {

bool is_separator(char c) { return c == ' ' || c == '\t' || c == ','; }

// Takes the last word off rest; empty when there is none.
std::string_view last_word(std::string_view& rest) {
  while (!rest.empty() && is_separator(rest.back())) rest.remove_suffix(1);
  std::size_t start = rest.size();
  while (start > 0 && !is_separator(rest[start - 1])) --start;
  const std::string_view word = rest.substr(start);
  rest.remove_suffix(word.size());
  return word;
}

bool is_trusted(std::span<const IpNetwork> trusted, const IpAddress& address) {
  return std::any_of(trusted.begin(), trusted.end(),
                     [&](const IpNetwork& network) { return network.contains(address); });
}

}  // namespace

IpAddress parse_forwarded_address(std::string_view text) {
  IpAddress address = IpAddress::parse(text);
  if (address.family != IpAddress::Family::kNone) return address;
  std::string_view host, port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find("]:");
    if (close == std::string_view::npos) return {};
    host = text.substr(1, close - 1);
    port = text.substr(close + 2);
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return {};
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto number = text::parse_decimal(port);
  if (!number || *number == 0 || *number > 65535) return {};
  address = IpAddress::parse(host);
  if (address.family != IpAddress::Family::kNone)
    address.port = static_cast<std::uint16_t>(*number);
  return address;
}

bool follow_forwarded(std::span<const std::string_view> values, std::span<const IpNetwork> trusted,
                      bool recursive, IpAddress& client) {
  bool changed = false;
  for (std::size_t i = values.size(); i > 0; --i) {
    std::string_view rest = values[i - 1];
    std::string_view word = last_word(rest);
    if (word.empty()) return changed;
    for (; !word.empty(); word = last_word(rest)) {
      if (!is_trusted(trusted, client)) return changed;
      const IpAddress reported = parse_forwarded_address(word);
      if (reported.family == IpAddress::Family::kNone) return changed;
      client = reported;
      changed = true;
      if (!recursive) return true;
    }
  }
  return changed;
}

}  // namespace corehttpd::access
