// The counters behind stub_status: shared memory, one cache line per worker slot, kept over
// reloads. See docs/formats.md.
#pragma once

#include <atomic>
#include <cstdint>

#include "corehttpd/http/services.h"
#include "corehttpd/shm/segment.h"

namespace corehttpd::server {

class SharedCounters final : public http::Counters {
 public:
  static constexpr std::uint32_t kLayoutVersion = 2;
  static constexpr std::uint32_t kSlots = 256;  // Workers alive at one time, all generations
                                                // together; slot 0 keeps the sums of the dead.

  // The segment's data must be kDataBytes.
  explicit SharedCounters(shm::Segment& segment)
      : slots_(reinterpret_cast<Slot*>(segment.data())) {}
  static constexpr std::size_t data_bytes() { return sizeof(Slot) * kSlots; }

  // Master: a free slot for a new worker, 0 if there is none (its counts then go to the common
  // slot). Slots of processes that are gone without their master (killed) are taken back.
  std::uint32_t take_slot();
  // Master: the worker that had it is dead; its totals are added to slot 0, its gauges vanish.
  void release_slot(std::uint32_t slot);
  // Worker: which slot is ours.
  void use_slot(std::uint32_t slot);

  void request_started() override { add(slots_[mine_].requests, 1); }
  void connection_accepted() override;
  void connection_closed() override { add(slots_[mine_].active, -1); }
  void activity(Activity activity, int change) override;
  Snapshot snapshot() const override;

 private:
  using Cell = std::atomic<std::int64_t>;
  struct alignas(64) Slot {
    Cell accepts, requests, active, reading, writing, waiting;
    std::atomic<std::uint64_t> user;  // Process ID; 0: free.
    std::uint64_t reserved;
  };
  static_assert(sizeof(Slot) == 64 && Cell::is_always_lock_free);
  // A slot has one writer, so a plain load and store is enough and cheaper than a locked add; slot
  // 0 is written by the master alone unless workers outnumber the slots.
  static void add(Cell& cell, std::int64_t change) {
    cell.store(cell.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  Slot* slots_;
  std::uint32_t mine_ = 0;
};

}  // namespace corehttpd::server
