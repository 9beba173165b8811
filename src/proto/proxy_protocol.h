// The PROXY protocol, versions 1 and 2: what a proxy in front sends before anything else of a
// connection (haproxy.org, proxy-protocol.txt). Strict: what is not exactly a header is refused,
// for what follows it would be taken for a client's.
#pragma once

#include <cstddef>
#include <span>

#include "corehttpd/base/error.h"
#include "corehttpd/http/proxy_header.h"

namespace corehttpd::proto {

// Version 1's longest line, with its end; a longer one is refused.
inline constexpr std::size_t kProxyLineMax = 107;
// Version 2's header with addresses and TLVs may be this long, as nginx has it.
inline constexpr std::size_t kProxyHeaderMax = 4096;

struct ProxyHeaderScan {
  enum class Verdict : std::uint8_t {
    kIncomplete,  // All of the bytes belong to the header, and more of it is to come.
    kComplete,    // Its size is known and its bytes are there.
    kBroken,      // problem says why, in nginx's words.
  } verdict = Verdict::kIncomplete;
  std::size_t bytes = 0;
  const char* problem = "";
};

// Looks at the first bytes of a connection.
ProxyHeaderScan scan_proxy_header(std::span<const std::byte> bytes);

// Reads a complete header (scan_proxy_header's bytes). Empty for those that name no TCP addresses
// (UNKNOWN, LOCAL, unix sockets, datagrams): the connection's own ones hold. kMalformed with the
// problem as context.
Result<http::ProxyHeader> parse_proxy_header(std::span<const std::byte> header);

}  // namespace corehttpd::proto
