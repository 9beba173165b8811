// A request's TLS connection as http, access and variables see it. Implemented by proto over tls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "corehttpd/base/arena.h"

namespace corehttpd::http {

struct Site;

class TlsInfo {
 public:
  // The value of a variable of nginx's, by its name ("ssl_cipher"); nothing: there is none. Lives
  // in arena or as long as the connection.
  virtual std::optional<std::string_view> value(std::string_view name, Arena& arena) const = 0;
  // The site that the handshake was with.
  virtual const Site& site() const = 0;
  // Why nothing more can be read, "SSL_read() failed (SSL: …)"; empty: the library has found no
  // fault with what the client has sent.
  virtual std::string_view problem() const = 0;
  // May a request for asked be served on this connection? 0, or the status it fails with: 421 when
  // site asks other things of clients than the site that the handshake was with, 495 and 496 when
  // the client's certificate is bad or missing, 425 when the request came before the end of the
  // handshake, where it may be a copy, and is not safe (RFC 8470). why: for the log.
  virtual std::uint16_t judge(const Site& asked, bool safe, const char*& why) const = 0;

 protected:
  ~TlsInfo() = default;
};

}  // namespace corehttpd::http
