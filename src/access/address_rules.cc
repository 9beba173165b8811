#include <algorithm>
#include <cstring>

#include "corehttpd/access/access.h"
#include "corehttpd/base/ip_network.h"

namespace corehttpd::access {
namespace {

using Decision = AddressRules::Decision;
using Family = IpAddress::Family;

std::uint32_t number_of(const std::uint8_t* bytes) {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | bytes[i];
  return number;
}

constexpr Decision decision(bool deny) { return deny ? Decision::kDeny : Decision::kAllow; }

bool is_mapped(const IpAddress& address) {
  constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(address.bytes.data(), kPrefix, sizeof(kPrefix)) == 0;
}

bool matches(const AddressRules::V6& rule, const IpAddress& client) {
  const std::size_t whole = rule.bits / 8;
  if (std::memcmp(rule.address.data(), client.bytes.data(), whole) != 0) return false;
  if (rule.bits % 8 == 0) return true;
  const unsigned mask = 0xffu << (8 - rule.bits % 8) & 0xffu;
  return rule.address[whole] == (client.bytes[whole] & mask);
}

// True if the prefix leaves bits out that were set.
bool clear_low_bits(std::array<std::uint8_t, 16>& bytes, std::size_t length, std::size_t bits) {
  bool cleared = false;
  for (std::size_t i = 0; i < length; ++i) {
    const std::size_t covered = std::clamp<std::size_t>(bits, 8 * i, 8 * i + 8) - 8 * i;
    const auto mask = static_cast<std::uint8_t>(0xff00u >> covered);
    cleared |= (bytes[i] & ~mask & 0xff) != 0;
    bytes[i] &= mask;
  }
  return cleared;
}

}  // namespace

bool AddressRules::add(Arena& arena, std::string_view text, bool deny, bool& low_bits) {
  low_bits = false;
  if (text == "all") {
    v4_.push_back(arena, {0, 0, deny});
    v6_.push_back(arena, {{}, 0, deny});
    unix_.push_back(arena, deny);
    return true;
  }
  auto network = IpNetwork::parse(text);
  if (!network) return false;
  IpAddress& address = network->address;
  const std::size_t length = address.binary().size();
  low_bits = clear_low_bits(address.bytes, length, network->bits);
  switch (address.family) {
    case Family::kV4: {
      const std::uint32_t mask = network->bits == 0 ? 0 : ~std::uint32_t{0} << (32 - network->bits);
      v4_.push_back(arena, {number_of(address.bytes.data()), mask, deny});
      return true;
    }
    case Family::kV6:
      v6_.push_back(arena, {address.bytes, network->bits, deny});
      return true;
    case Family::kUnix:
      unix_.push_back(arena, deny);
      return true;
    case Family::kNone:
      break;
  }
  return false;
}

Decision AddressRules::decide_v4(std::uint32_t client) const {
  for (const V4& rule : v4_) {
    if ((client & rule.mask) == rule.address) return decision(rule.deny);
  }
  return Decision::kNone;
}

Decision AddressRules::decide(const IpAddress& client) const {
  switch (client.family) {
    case Family::kV4:
      return decide_v4(number_of(client.bytes.data()));
    case Family::kV6:
      if (!v4_.empty() && is_mapped(client)) return decide_v4(number_of(client.bytes.data() + 12));
      for (const V6& rule : v6_) {
        if (matches(rule, client)) return decision(rule.deny);
      }
      return Decision::kNone;
    case Family::kUnix:
      return unix_.empty() ? Decision::kNone : decision(unix_[0]);
    case Family::kNone:
      break;
  }
  // Who can't be told is nobody that a rule lets in.
  return empty() ? Decision::kNone : Decision::kDeny;
}

}  // namespace corehttpd::access
