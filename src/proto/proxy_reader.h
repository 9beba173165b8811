// Reads the PROXY header of a connection before a protocol is chosen. No byte after the header is
// taken off the socket (bytes are looked at first and read when they are known to be the header's),
// so whoever serves the connection, in clear or over TLS, finds it as if there had been none.
#pragma once

#include <array>
#include <cstddef>

#include "proto/newcomer.h"
#include "proto/proxy_protocol.h"

namespace corehttpd::proto {

class ProxyReader final : public Newcomer, private io::Operation {
 public:
  // The whole header must come in a newcomer's time.
  static void serve(int fd, const http::ConnectionInfo& info, h1::Context& context);

  void close_now() override;

 private:
  ProxyReader(int fd, const http::ConnectionInfo& info, h1::Context& context);
  ~ProxyReader() = default;

  void wait();
  void on_ready(int result);
  void on_timer() override;
  void on_turn() override {}
  bool look();
  bool take(std::size_t count);
  void hand_over();
  void refuse(const char* problem);
  void close();
  template <class... A>
  void log(LogLevel level, int errno_value, fmt::format_string<A...> format, A&&... arguments);

  std::size_t read_ = 0;  // Bytes at the start of buffer_ that have been taken off the socket.
  std::array<std::byte, kProxyHeaderMax> buffer_;
};

}  // namespace corehttpd::proto
