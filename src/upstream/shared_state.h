// What workers know in common: the states of servers in zones, and the counts of connections to
// backends of known capacity.
//
// A configuration's zones are one segment, made by the master when the configuration is compiled
// and mapped by its workers at the same address, because they are forked from it; a new
// configuration starts with a fresh one, as states follow the servers it names. Layout: for each
// zone a ZoneHead, the PeerStates of its servers and kSlotsMax rows of what each worker holds of
// each server.
//
// Counts are the process's: the workers of the configuration before, who serve on for a while, and
// those of the new one must together keep within what the backend has. See BackendCountsStore.
//
// A worker takes a slot, whose lock it keeps until it ends: when it dies the kernel says so to the
// next one that takes the slot, which then gives back what the dead one had counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
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

// The counts of all backends that any configuration of this process has named, the slots' locks and
// what wakes the workers in them. What is there stays, though a later configuration may not name it
// any more: workers that have it in use may live on, and a backend's counts take 4 KiB.
class BackendCountsStore {
 public:
  static BackendCountsStore& of_process();
  // Makes the locks and what wakes, if they are not there yet.
  Result<void> open();
  // A backend's counts by what identifies it. Zeroed when nobody has asked for them before.
  Result<BackendCounts*> counts_of(std::string_view backend);
  shm::Lock* locks() const { return locks_; }  // kSlotsMax; nullptr: open() has not been called.
  int wake_fd(std::size_t slot) const { return wake_fds_[slot]; }
  // Gives back whatever the last owner of the slot had of any backend; the caller has its lock.
  // in_use: the slot is going to be the caller's.
  void recover(std::size_t slot, bool in_use);

 private:
  BackendCountsStore() = default;
  static constexpr std::uint32_t kLayoutVersion = 1;
  static constexpr std::size_t kPerSegment = 16;
  shm::Segment lock_segment_;
  shm::Lock* locks_ = nullptr;
  std::vector<int> wake_fds_;
  std::vector<shm::Segment> segments_;
  std::map<std::string, BackendCounts*, std::less<>> known_;
};

class SharedState {
 public:
  static constexpr std::uint32_t kLayoutVersion = 1;
  // For finish() of a module: what is to be shared. The pointers that are filled in are valid after
  // create(). id: see BackendCountsStore.
  void add_zone(Group& group) { zones_.push_back({&group, nullptr}); }
  void add_backend(std::string id, BackendCounts*& counts) {
    backends_.push_back({std::move(id), &counts});
  }
  bool empty() const { return zones_.empty() && backends_.empty(); }
  // Makes what is not there yet and hands it out. A failure leaves everything private to each
  // worker.
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
  struct Shared {
    std::string id;
    BackendCounts** counts;
  };
  Result<void> create_zones();
  void recover(std::size_t slot);
  void on_woken();

  shm::Segment segment_;
  BackendCountsStore& store_ = BackendCountsStore::of_process();
  std::vector<Zone> zones_;
  std::vector<Shared> backends_;
  std::size_t slot_ = SIZE_MAX;
  // The worker's own.
  io::Loop* loop_ = nullptr;
  std::vector<Backend*> watching_;
  Watch watch_{[](io::Operation& o, int) { static_cast<Watch&>(o).state.on_woken(); }, *this};
};

}  // namespace corehttpd::upstream
