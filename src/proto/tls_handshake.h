// A connection between its acceptance by a TLS listener and its first request: shakes hands, then
// hands over to the protocol that was agreed on. Owns the descriptor meanwhile, destroys itself.
#pragma once

#include <memory>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h1/context.h"
#include "proto/tls_channel.h"

namespace corehttpd::proto {

class TlsHandshake final : public LiveConnection,
                           private tls::HandshakeOwner,
                           private io::Timer,
                           private TurnTask {
 public:
  // fd: connected, non-blocking. The handshake must be done within client_header_timeout of the
  // endpoint's default site. context must outlive the connection.
  static void serve(int fd, const http::ConnectionInfo& info, h1::Context& context);

  void drain() override;
  void close_now() override;

 private:
  // While draining, as idle connections.
  static constexpr Milliseconds kDrainTime = 10'000;
  TlsHandshake(int fd, const http::ConnectionInfo& info, h1::Context& context);
  ~TlsHandshake() = default;

  tls::Choice choose(std::string_view name) override;
  void on_handshake_done() override;
  void on_handshake_failed(const tls::HandshakeFailure& failure) override;
  void on_plain_text() override;
  void on_timer();
  void on_turn();
  void begin_close();
  void leave();

  h1::Context& context_;
  const http::CoreSettings& settings_;  // Of the endpoint's default site.
  http::ConnectionInfo info_;
  std::unique_ptr<TlsChannel> channel_;
  int fd_;
  bool closing_ = false;
  bool left_ = false;
};

}  // namespace corehttpd::proto
