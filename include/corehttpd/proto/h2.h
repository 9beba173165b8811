// HTTP/2 over a connection that the acceptor has recognized by its preface (RFC 9113 §3.4), by
// prior knowledge or by ALPN.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "corehttpd/conf/directive.h"
#include "corehttpd/http/services.h"
#include "corehttpd/http/transport.h"

namespace corehttpd::proto {
class ConnectionSet;
struct TlsChannel;
}  // namespace corehttpd::proto

namespace corehttpd::h2 {

// The http2_* directives; needed where take_over() is called.
const conf::Module& module();

// The 24 bytes every HTTP/2 client begins with.
inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr std::size_t kPrefaceBytes = sizeof(kPreface) - 1;

// Serves HTTP/2 on fd from now on. Takes over the descriptor (non-blocking, connected; no operation
// may be pending on it) and closes it in the end. received: what has been read of the connection so
// far, from the first byte of the preface on (possibly only a part of it); used during the call
// only. The connection adds itself to set and leaves it when it ends. services and set must outlive
// it. Limits and times (client_header_timeout, keepalive_timeout, keepalive_requests, send_timeout,
// large_client_header_buffers) are those of the endpoint's default site. Never fails: without
// memory for a session the descriptor is closed. Counters: connection_accepted() has been called,
// and the caller counts the connection as no activity (reading, writing, waiting) any more; from
// here on it counts itself, connection_closed() included. tls: what it speaks through; nullptr: in
// clear.
void take_over(int fd, const http::ConnectionInfo& info, http::Services& services,
               std::span<const std::byte> received, proto::ConnectionSet& set,
               std::unique_ptr<proto::TlsChannel> tls);
void take_over(int fd, const http::ConnectionInfo& info, http::Services& services,
               std::span<const std::byte> received, proto::ConnectionSet& set);

}  // namespace corehttpd::h2
