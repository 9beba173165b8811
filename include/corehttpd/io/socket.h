// Addresses and sockets by plain system calls, for the master (listen) and for upstream (connect).
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "corehttpd/base/error.h"

namespace corehttpd::io {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::uint16_t port() const;         // 0 for unix.
  void set_port(std::uint16_t port);
  bool is_unix() const { return family() == AF_UNIX; }
  bool is_wildcard() const;
  // "127.0.0.1:80", "[::1]:80", "unix:/run/x.sock".
  std::string to_string() const;
  // "127.0.0.1", "::1", "unix:".
  std::string host() const;
  bool operator==(const Address& other) const;
};

// Numeric forms and "unix:/path" only: "127.0.0.1", "127.0.0.1:80", "[::1]:80", "*:80", "80" (default_port 0: a port is required).
// A name (example.org:80) yields kNotFound: see resolve().
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);
// getaddrinfo; master only, at start. First result. Blocks.
Result<Address> resolve(std::string_view host, std::uint16_t port);

struct ListenOptions {
  int backlog = 0;        // 0: somaxconn.
  bool ipv6_only = true;
  bool reuse_port = false;
  int receive_buffer = 0, send_buffer = 0;  // 0: the system's.
};
// A bound, listening, non-blocking, close-on-exec TCP or unix stream socket (an orphaned socket file is replaced, a live one is not).
Result<int> listen_on(const Address& address, const ListenOptions& options);
// A non-blocking, close-on-exec stream socket of the family.
Result<int> open_stream_socket(int family);
Result<Address> local_address(int fd);
void set_no_delay(int fd, bool on);

}  // namespace corehttpd::io
