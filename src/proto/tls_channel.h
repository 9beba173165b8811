// The TLS side of a client's connection: the stream that its protocol speaks through, and what its
// requests may know and do by it. Belongs to the protocol's connection.
#pragma once

#include "corehttpd/http/services.h"
#include "corehttpd/http/site.h"
#include "corehttpd/http/tls_info.h"
#include "corehttpd/tls/stream.h"

namespace corehttpd::proto {

struct TlsChannel final : http::TlsInfo {
  TlsChannel(int fd, http::Services& services, tls::HandshakeOwner& owner);

  std::optional<std::string_view> value(std::string_view name, Arena& arena) const override;
  const http::Site& site() const override { return *shown; }
  std::string_view problem() const override { return stream.problem(); }
  std::uint16_t judge(const http::Site& asked, bool safe, const char*& why) const override;

  const tls::Store& store;
  const http::Site* shown = nullptr;  // Whose certificate the client was shown.
  tls::Stream stream;
};

}  // namespace corehttpd::proto
