// Accepting clients' connections and finding out what they speak. One Acceptors per worker, one
// accept under way per listener; the listeners' descriptors are shared by all workers and belong to
// the master. A connection begins as HTTP/1; one whose first bytes are HTTP/2's preface is handed
// to h2 (RFC 9113 §3.4), where the endpoint allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "corehttpd/http/services.h"
#include "corehttpd/http/site.h"
#include "corehttpd/proto/connection_set.h"

namespace corehttpd::h1 {
struct Context;
}

namespace corehttpd::proto {

class Acceptor;

class Acceptors {
 public:
  // connections_max: worker_connections. services, its loop and its sites must outlive the object.
  Acceptors(http::Services& services, std::size_t connections_max);
  Acceptors(const Acceptors&) = delete;
  Acceptors& operator=(const Acceptors&) = delete;
  // All acceptors must have stopped and all connections be gone.
  ~Acceptors();

  // Starts accepting on a listening socket (which stays the caller's and must stay open until
  // stopped()). The endpoint must outlive all connections.
  void add(int listener, const http::Endpoint& endpoint);
  // Accepts no more. Connections that the kernel has completed but nobody has accepted stay queued
  // for other workers.
  void stop();
  // No accept is under way any more. when_stopped (if given) is posted when that becomes true after
  // stop(), at once if it is.
  bool stopped() const;
  void when_stopped(TurnTask* task);
  ConnectionSet& connections() { return connections_; }

 private:
  friend class Acceptor;
  void announce_stopped();

  http::Services& services_;
  std::size_t connections_max_;
  std::uint64_t last_number_ = 0;  // $connection, *N in logs.
  ConnectionSet connections_;
  std::unique_ptr<h1::Context> h1_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  TurnTask* when_stopped_ = nullptr;
  bool stopping_ = false;
};

}  // namespace corehttpd::proto
