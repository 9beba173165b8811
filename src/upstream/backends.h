// Backends of known capacity: as many connections as they have workers, used again and again,
// shared between our workers, and a queue for the requests that have to wait for one.
//
// A connection occupies a place. Places are counted in shared memory for all workers; a place that
// becomes free goes to the next request of the same worker, unless another worker has fewer places
// and somebody waiting, or somebody who has waited for much longer: then it is left to that one.
// Idle connections are given up as soon as another worker waits. See docs/flow_control.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/io/loop.h"
#include "upstream/idle_connections.h"
#include "upstream/shared_state.h"

namespace corehttpd::upstream {

class Backend {
 public:
  // A request in the queue. Destroying it takes it out; leave() does so, too.
  class Waiter : public ListHook<> {
   public:
    // Its turn has come, at the end of a turn of the loop. connection: one that may be used at
    // once; nullptr: there is room for one more.
    virtual void on_place(OriginConnection* connection) = 0;
    Milliseconds since_ms = 0;

   protected:
    ~Waiter() = default;
  };
  enum class Place : std::uint8_t {
    kOpen,    // There is room for one more connection.
    kReused,  // One that is open was given.
    kWait,    // on_place() will be called.
    kFull     // Neither a connection nor room in the queue.
  };
  // idle_ms: how long connections are kept without a request; 0: only for those who wait already.
  Backend(std::string name, std::uint32_t capacity, Milliseconds idle_ms);
  Backend(const Backend&) = delete;
  ~Backend();

  // fresh: a reused connection will not do.
  Place acquire(io::Loop& loop, Waiter& waiter, std::uint32_t queue_max, bool fresh,
                OriginConnection*& reused);
  void leave(Waiter& waiter);
  // A place is free. connection: still of use, taken over; nullptr: it was closed.
  void give_back(OriginConnection* connection);
  // The same for one that was abandoned, which is taken over: its place is free when the origin has
  // ended, at the latest after timeout.
  void keep_until_end(OriginConnection& connection, Milliseconds timeout);
  // Looks after requests that wait, here and in other workers.
  void dispatch();

  std::string_view name() const { return name_; }
  std::uint32_t capacity() const { return capacity_; }
  // Connections of all workers, requests that wait here: for logs.
  std::uint32_t in_use() const;
  std::size_t waiting() const { return waiting_; }
  // Since when the one at the head of the queue has been waiting; 0: nobody is.
  Milliseconds waiting_ms() const;

 private:
  friend class Backends;
  friend std::vector<PoolStatus> pool_status(const conf::Configuration&);
  struct Task : TurnTask {
    Task(Run run, Backend& owner) : TurnTask(run), backend(owner) {}
    Backend& backend;
  };
  // While requests wait: looks from time to time whether the holder of a place has died with it.
  struct Patience : io::Timer {
    Patience(Fire fire, Backend& owner) : io::Timer(fire), backend(owner) {}
    Backend& backend;
  };
  void on_patience();
  bool reap();
  BackendCounts& counts() { return *counts_; }
  BackendSlot& own() { return counts_->slot[slot_]; }
  void attach(io::Loop& loop);
  bool reserve();
  void release_place();
  void leave_place_to(std::size_t slot);
  // A worker that should have the next place; SIZE_MAX: none.
  std::size_t neediest() const;
  void publish();
  void wake_holders();

  std::string name_;
  std::string status_path_;
  std::uint32_t capacity_;
  Milliseconds idle_ms_;
  SharedState* shared_ = nullptr;
  BackendCounts* counts_ = nullptr;
  std::unique_ptr<BackendCounts> private_counts_;
  std::size_t slot_ = 0;
  bool named_ = false;  // A server of the configuration belongs to it.
  // The worker's own.
  io::Loop* loop_ = nullptr;
  List<Waiter> waiters_;
  std::size_t waiting_ = 0;
  Milliseconds reaped_ms_ = INT64_MIN / 2;
  std::uint32_t granted_ = 0;  // Places that were left to us and are not used yet.
  IdleConnections idle_;
  // Each has its place until its end has come back.
  IdleConnections leaving_;    // Answered, and ended by us.
  IdleConnections abandoned_;  // Of clients that left: their children are busy.
  Task dispatch_;
  Patience patience_;
};

// All of a configuration, an object of it.
class Backends {
 public:
  // fastcgi_pool_files; empty: the usual ones.
  std::vector<std::string> patterns;
  bool dynamic = false;  // A *_pass has variables: any pool may be asked for.
  // Finds the backends of all servers. Called once, when all groups are known.
  void link(conf::Compiler& compiler, SharedState& shared);
  // The backend that listens there; nullptr: its capacity is not known.
  Backend* at(const io::Address& address) const;
  // The same where the address may be a link to the socket, as Debian's /run/php/php-fpm.sock.
  Backend* at_link(const io::Address& address) const;
  std::span<const std::unique_ptr<Backend>> all() const { return list_; }

 private:
  struct Known {
    io::Address address;
    bool everywhere;
    Backend* backend;
  };
  // id: see BackendCountsStore.
  Backend* add(std::string name, std::string id, std::uint32_t capacity, Milliseconds idle_ms,
               SharedState& shared);
  void link_group(Group& group, SharedState& shared);
  std::vector<Known> known_;
  std::vector<std::unique_ptr<Backend>> list_;
};

}  // namespace corehttpd::upstream
