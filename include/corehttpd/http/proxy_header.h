// What the header of the PROXY protocol said of a connection: the client and the address it came
// to, as the proxy in front saw them. Shared by the copies of ConnectionInfo; single-threaded.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

#include "corehttpd/base/block.h"
#include "corehttpd/base/ip_address.h"

namespace corehttpd::http {

class ProxyHeader {
 public:
  // No header, or one that names no addresses (LOCAL, UNKNOWN).
  ProxyHeader() = default;
  // tlvs are copied: type, length in two bytes, value, again and again; not checked.
  ProxyHeader(const IpAddress& source, const IpAddress& destination,
              std::span<const std::byte> tlvs)
      : block_(Block::allocate(sizeof(Content) + tlvs.size())) {
    auto* content = new (block_->data()) Content{source, destination, tlvs.size()};
    std::byte* at = reinterpret_cast<std::byte*>(content + 1);
    for (const std::byte byte : tlvs) *at++ = byte;
  }
  explicit operator bool() const { return static_cast<bool>(block_); }
  // Only of one that is not empty.
  const IpAddress& source() const { return content().source; }
  const IpAddress& destination() const { return content().destination; }
  std::span<const std::byte> tlvs() const {
    return {reinterpret_cast<const std::byte*>(&content() + 1), content().tlv_bytes};
  }

 private:
  struct Content {
    IpAddress source, destination;
    std::size_t tlv_bytes;
  };
  static_assert(std::is_trivially_destructible_v<Content>);
  const Content& content() const { return *reinterpret_cast<const Content*>(block_->data()); }

  BlockRef block_;
};

}  // namespace corehttpd::http
