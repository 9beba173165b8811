// What a connection is before it has a protocol: owned by itself, counted as reading, limited in
// time. Owns the descriptor; hands it over, or closes it, and destroys itself.
#pragma once

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h1/context.h"

namespace corehttpd::proto {

class Newcomer : public LiveConnection, protected io::Timer, protected TurnTask {
 public:
  void drain() final;

 protected:
  // fd: connected, non-blocking. context must outlive the connection.
  Newcomer(int fd, const http::ConnectionInfo& info, h1::Context& context);
  virtual ~Newcomer() = default;

  // It must be through within client_header_timeout of the endpoint's default site; while draining,
  // within what idle connections get.
  void begin();
  // Of a descriptor that has not been handed over.
  void close_descriptor();
  // Destroyed at the end of the turn.
  void leave();

  virtual void on_timer() = 0;
  // What was posted.
  virtual void on_turn() = 0;

  h1::Context& context_;
  const http::CoreSettings& settings_;  // Of the endpoint's default site.
  http::ConnectionInfo info_;
  int fd_;
  bool closing_ = false;

 private:
  static constexpr Milliseconds kDrainTime = 10'000;

  bool left_ = false;
};

}  // namespace corehttpd::proto
