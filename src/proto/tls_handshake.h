// A connection between its acceptance by a TLS listener and its first request: shakes hands, then
// hands over to the protocol that was agreed on. Owns the descriptor meanwhile, destroys itself.
#pragma once

#include <memory>

#include "proto/newcomer.h"
#include "proto/tls_channel.h"

namespace corehttpd::proto {

class TlsHandshake final : public Newcomer, private tls::HandshakeOwner {
 public:
  // fd: connected, non-blocking. The handshake must be done within client_header_timeout of the
  // endpoint's default site. context must outlive the connection.
  static void serve(int fd, const http::ConnectionInfo& info, h1::Context& context);

  void close_now() override;

 private:
  TlsHandshake(int fd, const http::ConnectionInfo& info, h1::Context& context);
  ~TlsHandshake() = default;

  tls::Choice choose(std::string_view name) override;
  void on_handshake_done() override;
  void on_handshake_failed(const tls::HandshakeFailure& failure) override;
  void on_plain_text() override;
  void on_timer() override;
  void on_turn() override;
  void begin_close();

  std::unique_ptr<TlsChannel> channel_;
};

}  // namespace corehttpd::proto
