// What the workers of one configuration know in common: the states of servers in zones and the
// counts of connections to backends of known capacity. One segment, made by the master when the
// configuration is compiled and mapped by its workers at the same address, because they are forked
// from it; a new configuration starts with a fresh one, as states follow the servers it names.
//
// A worker takes a slot, whose lock it keeps until it ends: when it dies the kernel says so to the
// next one that takes the slot, which then gives back what the dead one had counted.
//
// Layout: kSlotsMax slot locks; then for each zone a ZoneHead, the PeerStates of its servers and
// kSlotsMax rows of what each worker holds of each server; for each backend a BackendCounts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/shm/lock.h"
#include "corehttpd/shm/segment.h"
#include "corehttpd/upstream/peers.h"

namespace corehttpd::upstream {

// More workers than this go on without sharing.
inline constexpr std::size_t kSlotsMax = 64;

// One worker's part of a backend's connections. Written by its worker; granted by others as well.
struct alignas(64) BackendSlot {
  std::atomic<std::uint32_t> used;      // Places it has, idle and granted ones among them.
  std::atomic<std::uint32_t> idle;      // Of these: connections without a request.
  std::atomic<std::uint32_t> waiting;   // Requests in its queue.
  std::atomic<std::uint32_t> granted;   // Places that another worker left to it.
  std::atomic<std::int64_t> oldest_ms;  // When the first of its queue came; any, if none waits.
};

struct alignas(64) BackendCounts {
  std::atomic<std::uint32_t> total;  // Places taken by all workers; at most the capacity.
  std::atomic<std::uint32_t> slots;  // Slots that were ever in use: 0 … slots - 1.
  BackendSlot slot[kSlotsMax];
};

struct ZoneHead {
  shm::Lock lock;
};

class SharedState {
 public:
  static constexpr std::uint32_t kLayoutVersion = 1;
  ~SharedState();
  // For finish() of a module: what is to be shared. The pointers that are filled in are valid after
  // create().
  void add_zone(Group& group) { zones_.push_back({&group, nullptr}); }
  void add_backend(BackendCounts*& counts) { backends_.push_back(&counts); }
  bool empty() const { return zones_.empty() && backends_.empty(); }
  // Makes the segment and hands out its parts. A failure leaves everything private to each worker.
  Result<void> create();
  // The calling worker's slot, taken at the first call; kSlotsMax when there is none left.
  std::size_t slot();
  // For a worker with a slot: has backend look after its requests whenever another worker wakes us.
  void watch(io::Loop& loop, Backend& backend);
  void wake(std::size_t slot);
  // Gives back what workers had that have ended.
  void reap();

 private:
  struct Zone {
    Group* group;
    std::uint32_t* held;  // kSlotsMax rows.
  };
  struct Watch : io::Operation {
    Watch(Complete complete, SharedState& owner) : io::Operation(complete), state(owner) {}
    SharedState& state;
  };
  void recover(std::size_t slot);
  void on_woken();

  shm::Segment segment_;
  shm::Lock* locks_ = nullptr;
  std::vector<Zone> zones_;
  std::vector<BackendCounts**> backends_;
  std::array<int, kSlotsMax> wake_fds_ = [] {
    std::array<int, kSlotsMax> none;
    none.fill(-1);
    return none;
  }();
  std::size_t slot_ = SIZE_MAX;
  // The worker's own.
  io::Loop* loop_ = nullptr;
  std::vector<Backend*> watching_;
  Watch watch_{[](io::Operation& o, int) { static_cast<Watch&>(o).state.on_woken(); }, *this};
};

}  // namespace corehttpd::upstream
