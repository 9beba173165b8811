// Reads the PROXY header of a connection before a protocol is chosen. No byte after the header is
// taken off the socket (bytes are looked at first and read when they are known to be the header's),
// so whoever serves the connection, in clear or over TLS, finds it as if there had been none.
#pragma once

#include <array>
#include <cstddef>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h1/context.h"
#include "proto/proxy_protocol.h"

namespace corehttpd::proto {

// Owns the descriptor, destroys itself.
class ProxyReader final : public LiveConnection,
                          private io::Operation,
                          private io::Timer,
                          private TurnTask {
 public:
  // fd: connected, non-blocking. The whole header must come within client_header_timeout of the
  // endpoint's default site. context must outlive the connection.
  static void serve(int fd, const http::ConnectionInfo& info, h1::Context& context);

  void drain() override;
  void close_now() override;

 private:
  // While draining, as idle connections.
  static constexpr Milliseconds kDrainTime = 10'000;

  ProxyReader(int fd, const http::ConnectionInfo& info, h1::Context& context);
  ~ProxyReader() = default;

  void wait();
  void on_ready(int result);
  void on_timer();
  bool look();
  bool take(std::size_t count);
  void hand_over();
  void refuse(const char* problem);
  void close();
  void leave();
  template <class... A>
  void log(LogLevel level, int errno_value, fmt::format_string<A...> format, A&&... arguments);

  h1::Context& context_;
  const http::CoreSettings& settings_;  // Of the endpoint's default site.
  http::ConnectionInfo info_;
  int fd_;
  bool closing_ = false;
  std::size_t read_ = 0;  // Bytes at the start of buffer_ that have been taken off the socket.
  std::array<std::byte, kProxyHeaderMax> buffer_;
};

}  // namespace corehttpd::proto
