// What the gzip directives say. Both what compresses responses as they are sent and what serves
// files that were compressed before go by them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/http/exchange.h"

namespace corehttpd::expr {
class Regex;
}

namespace corehttpd::assets {

struct GzipSettings {
  // gzip_proxied: what makes the answer to a proxy's request (one with Via) worth compressing.
  enum Proxied : std::uint16_t {
    kOff = 0,
    kExpired = 1 << 0,
    kNoCache = 1 << 1,
    kNoStore = 1 << 2,
    kPrivate = 1 << 3,
    kNoLastModified = 1 << 4,
    kNoEtag = 1 << 5,
    kAuth = 1 << 6,
    kAny = 1 << 7,
  };
  bool on = false;
  bool vary = false;
  bool all_types = false;      // "*".
  bool disable_msie6 = false;  // "msie6": MSIE 4 to 6, but 6 with SV1.
  int level = 1;               // 1 to 9.
  std::uint16_t proxied = kOff;
  bool http10 = false;            // gzip_http_version 1.0: answers to HTTP/1.0 as well.
  std::uint64_t min_length = 20;  // Of bodies whose length is known.
  std::span<const std::string_view> types;
  std::span<const expr::Regex* const> disable;  // User agents.
};

// gzip_http_version, gzip_disable and gzip_proxied: whether the client may be sent a compressed
// variant at all, whatever it accepts. What gzip_proxied asks of the response is looked up in its
// head as it stands.
bool may_be_compressed_for(http::Exchange& exchange);

}  // namespace corehttpd::assets
