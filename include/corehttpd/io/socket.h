// Addresses and sockets by plain system calls, for the master (listen) and for upstream (connect).
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/error.h"

namespace corehttpd::io {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::uint16_t port() const;  // 0 for unix.
  void set_port(std::uint16_t port);
  bool is_unix() const { return family() == AF_UNIX; }
  bool is_wildcard() const;
  // "127.0.0.1:80", "[::1]:80", "unix:/run/x.sock"; "unix:" for an unnamed unix socket.
  std::string to_string() const;
  // "127.0.0.1", "::1", "unix:", as nginx's $remote_addr.
  std::string host() const;
  bool operator==(const Address& other) const;
};

// Numeric forms and "unix:/path" only, as nginx's listen, server and proxy_pass write them:
// "127.0.0.1", "127.0.0.1:80",
// "[::1]:80", "[::1]", "*:80", "*", "80". Without a port default_port counts; 0: a port is
// required. Ports are 1 to 65535. kNotFound: a name (example.org:80), see split_host_port() and
// resolve(). kMalformed: neither; context says why in nginx's words.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);
// "8080" and "*:8080": what can be listened on and not connected to.
bool is_any_host(std::string_view text);

struct HostPort {
  std::string_view host;  // Of an IPv6 address without its brackets.
  std::uint16_t port = 0;
};
// The same grammar with a name as the host, for what parse_address() calls kNotFound. host points
// into text. kMalformed as above.
Result<HostPort> split_host_port(std::string_view text, std::uint16_t default_port);
// getaddrinfo; master only, at start. First result. Blocks. kNotFound: there is no such name;
// kUnavailable: no server answered.
Result<Address> resolve(std::string_view host, std::uint16_t port);
// The same with all of its IPv4 and IPv6 addresses, at least one.
Result<std::vector<Address>> resolve_all(std::string_view host, std::uint16_t port);

struct ListenOptions {
  int backlog = 0;  // 0: somaxconn, which the kernel also cuts larger ones to.
  bool ipv6_only = true;
  bool reuse_port = false;
  int receive_buffer = 0, send_buffer = 0;  // 0: the system's.
  // The rest is of TCP. Connections are accepted when their first bytes are there, or after this
  // many seconds; 0: when they are made.
  int defer_seconds = 0;
  int fast_open = 0;  // Length of the queue of connections that bring data with their SYN; 0: none.
  enum class KeepAlive : std::uint8_t { kSystem, kOff, kOn } keep_alive = KeepAlive::kSystem;
  int keep_idle_seconds = 0, keep_interval_seconds = 0, keep_probes = 0;  // 0: the system's.
  // Binds an address too that this machine does not have (yet): the socket hears of connections
  // from when it has.
  bool absent_address = false;
};
// The backlog that 0 stands for: /proc/sys/net/core/somaxconn, 4096 when that cannot be read.
int largest_backlog();
// A bound, listening, non-blocking, close-on-exec TCP or unix stream socket (an orphaned socket
// file is replaced, a live one is not; the new file may be connected to by everybody, as nginx's).
// The caller owns the descriptor. detail: errno.
Result<int> listen_on(const Address& address, const ListenOptions& options);
// Gives a listening socket of address the options that can still be changed: all but ipv6_only,
// reuse_port and absent_address. Buffers hold for connections made from then on.
void configure_listener(int fd, const Address& address, const ListenOptions& options);
// A non-blocking, close-on-exec stream socket of the family.
Result<int> open_stream_socket(int family);
Result<Address> local_address(int fd);
// TCP_NODELAY; without effect on other sockets.
void set_no_delay(int fd, bool on);

}  // namespace corehttpd::io
