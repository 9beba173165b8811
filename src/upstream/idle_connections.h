// Connections to origins that are open and have nothing to do, of one worker: the one used last is
// used first. What ends, says something unasked or is idle for too long is closed.
#pragma once

#include <cstddef>

#include "corehttpd/base/list.h"
#include "corehttpd/io/loop.h"
#include "upstream/origin_connection.h"

namespace corehttpd::upstream {

class IdleConnections {
 public:
  // dropped: called after a connection was closed by itself or for its age, from the loop; nullptr:
  // nobody minds.
  using Dropped = void (*)(void* context);
  explicit IdleConnections(Dropped dropped = nullptr, void* context = nullptr)
      : dropped_(dropped), context_(context) {}
  ~IdleConnections() { clear(); }
  // Takes it over from its user.
  void keep(io::Loop& loop, OriginConnection& connection, Milliseconds timeout);
  // The one used last to that address (nullptr: to any), found alive; it must get a user at once.
  // nullptr: none. Dead ones found on the way are closed and count in dead. trust_new: one to a
  // unix socket that has answered in this very millisecond is not looked at, which saves a call per
  // request where requests wait in line; that its end is under way would hardly be seen either.
  OriginConnection* take(const io::Address* address, std::size_t& dead, bool trust_new = false);
  // Closes the one used longest ago. False: there is none.
  bool drop_oldest();
  std::size_t size() const { return size_; }
  void clear();

 private:
  // A connection's user while it has no request.
  class Idle final : public ListHook<>, private OriginConnection::User {
   public:
    struct Expiry : io::Timer {
      Expiry(Fire fire, Idle& owner) : io::Timer(fire), idle(owner) {}
      Idle& idle;
    };
    Idle(IdleConnections& owner, io::Loop& loop, OriginConnection& held);
    ~Idle();
    bool is_new() const { return kept_ms_ == loop_.clock().now_ms(); }
    OriginConnection& connection;
    Expiry expiry;

   private:
    void end();
    // An end, an error, or words that nobody asked for.
    void on_received(std::span<const std::byte>) override { end(); }
    void on_receive_failed(int) override { end(); }
    void on_send_failed(int) override { end(); }
    void on_connect_failed(int) override { end(); }
    void on_connected() override {}
    void on_drained() override {}
    io::Loop& loop_;
    IdleConnections& owner_;
    Milliseconds kept_ms_;
  };
  void drop(Idle& idle);
  List<Idle> list_;  // The one used last is first.
  std::size_t size_ = 0;
  Dropped dropped_;
  void* context_;
};

}  // namespace corehttpd::upstream
