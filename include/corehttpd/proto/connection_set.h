// The live client connections of one worker, whatever protocol they speak: so that a worker can end
// them gracefully, know when the last one is gone, and keep to worker_connections. Owns nothing:
// connections own themselves and leave the set when they are destroyed (at the end of a turn, once
// the kernel has let go of all their operations).
#pragma once

#include <cstddef>

#include "corehttpd/base/list.h"
#include "corehttpd/base/turn.h"

namespace corehttpd::proto {

struct LiveTag {};

class ConnectionSet;

// Base of h1::Connection and of h2's connection.
class LiveConnection : public ListHook<LiveTag> {
 public:
  // A graceful end has begun (Services::draining is set already): answer what is under way, then
  // close; close at leisure what is idle. Only marks and schedules: must not destroy this or any
  // other connection before it returns.
  virtual void drain() = 0;
  // worker_shutdown_timeout is over, or a fast shutdown: exchanges are told that their transport is
  // lost, the socket is closed as soon as the kernel allows. Must not destroy before it returns
  // either.
  virtual void close_now() = 0;

 protected:
  LiveConnection() = default;
  virtual ~LiveConnection();

 private:
  friend class ConnectionSet;
  ConnectionSet* set_ = nullptr;
};

class ConnectionSet {
 public:
  // turn: where the on_empty task is posted.
  explicit ConnectionSet(TurnQueue& turn) : turn_(turn) {}
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;
  ~ConnectionSet();

  void add(LiveConnection& connection);
  // A connection that is destroyed removes itself; calling it earlier hands the connection's place
  // to its successor (h1 to h2).
  void remove(LiveConnection& connection);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Asks every connection to end gracefully.
  void drain();
  // Asks every connection to end at once.
  void close_now();
  // task is posted whenever the set becomes empty (and at once if it is). nullptr: nobody waits.
  // Not owned.
  void when_empty(TurnTask* task);

 private:
  TurnQueue& turn_;
  List<LiveConnection, LiveTag> connections_;
  std::size_t size_ = 0;
  TurnTask* when_empty_ = nullptr;
};

}  // namespace corehttpd::proto
