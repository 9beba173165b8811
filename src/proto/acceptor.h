// One listener of one worker.
#pragma once

#include <sys/socket.h>

#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/acceptor.h"

namespace corehttpd::proto {

// Serves a connection of whose bytes nothing has been read, in clear or over TLS as its endpoint
// has it. Takes over the descriptor.
void serve_connection(int fd, const http::ConnectionInfo& info, h1::Context& context);

class Acceptor {
 public:
  Acceptor(Acceptors& owner, int listener, const http::Endpoint& endpoint);
  void start();
  void stop();
  bool stopped() const { return !operation_.pending() && !timer_.scheduled(); }

 private:
  // While descriptors or connections have run out.
  static constexpr Milliseconds kPause = 500;
  static constexpr Milliseconds kPauseForRoom = 100;
  // Of the block budget; above it nobody new is let in (design §7).
  static constexpr std::size_t kBlocksPercentMax = 90;

  void on_accepted(int result);
  void on_error(int errno_value);
  void serve(int fd);
  void serve_last();
  bool has_room();
  void pause(Milliseconds time);

  struct AcceptOperation : io::Operation {
    AcceptOperation(Complete complete, Acceptor& the_owner)
        : io::Operation(complete), owner(the_owner) {}
    Acceptor& owner;
  };
  struct PauseTimer : io::Timer {
    PauseTimer(Fire fire, Acceptor& the_owner) : io::Timer(fire), owner(the_owner) {}
    Acceptor& owner;
  };

  Acceptors& owner_;
  int listener_;
  const http::Endpoint& endpoint_;
  bool any_address_ =
      false;  // Bound to a wildcard: each connection is asked for its own local address.
  bool out_of_descriptors_ = false;
  bool out_of_connections_ = false;
  sockaddr_storage peer_{};
  AcceptOperation operation_;
  PauseTimer timer_;
};

}  // namespace corehttpd::proto
