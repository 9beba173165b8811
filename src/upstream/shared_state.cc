#include "upstream/shared_state.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "upstream/backends.h"

namespace corehttpd::upstream {
namespace {

// Hands out pieces of the segment, each aligned to a cache line.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  template <class T>
  T* take(std::size_t count) {
    used_ = (used_ + 63) & ~std::size_t{63};
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += sizeof(T) * count;
    return reinterpret_cast<T*>(at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace

BackendCountsStore& BackendCountsStore::of_process() {
  // Never destroyed: workers end without going through their objects.
  static auto& store = *new BackendCountsStore;
  return store;
}

Result<void> BackendCountsStore::open() {
  if (locks_ != nullptr) return {};
  while (wake_fds_.size() < kSlotsMax) {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return std::unexpected(error_from_errno(errno, "eventfd()"));
    wake_fds_.push_back(fd);
  }
  lock_segment_ = CORE_TRY(
      shm::Segment::create("corehttpd-slots", kLayoutVersion, sizeof(shm::Lock) * kSlotsMax, 0));
  locks_ = reinterpret_cast<shm::Lock*>(lock_segment_.data());
  for (std::size_t i = 0; i < kSlotsMax; ++i) locks_[i].create();
  return {};
}

Result<BackendCounts*> BackendCountsStore::counts_of(std::string_view backend) {
  if (const auto found = known_.find(backend); found != known_.end()) return found->second;
  const std::size_t place = known_.size() % kPerSegment;
  if (place == 0) {
    segments_.push_back(CORE_TRY(shm::Segment::create("corehttpd-backends", kLayoutVersion,
                                                      sizeof(BackendCounts) * kPerSegment, 0)));
  }
  auto* counts = reinterpret_cast<BackendCounts*>(segments_.back().data()) + place;
  known_.emplace(backend, counts);
  return counts;
}

void BackendCountsStore::recover(std::size_t slot, bool in_use) {
  for (const auto& [id, counts] : known_) {
    BackendSlot& own = counts->slot[slot];
    if (!in_use && own.used == 0) continue;
    own.waiting = 0;
    own.idle = 0;
    own.granted = 0;
    counts->total -= own.used.exchange(0);
    std::uint32_t known = counts->slots;
    while (known <= slot && !counts->slots.compare_exchange_weak(known, slot + 1)) {
    }
  }
}

Result<void> SharedState::create() {
  CORE_TRY(store_.open());
  for (const Shared& backend : backends_) *backend.counts = CORE_TRY(store_.counts_of(backend.id));
  return zones_.empty() ? Result<void>{} : create_zones();
}

Result<void> SharedState::create_zones() {
  Cutter measure(nullptr);
  for (const Zone& zone : zones_) {
    measure.take<ZoneHead>(1);
    measure.take<PeerState>(zone.group->peers.size());
    measure.take<std::uint32_t>(kSlotsMax * zone.group->peers.size());
  }
  segment_ =
      CORE_TRY(shm::Segment::create("corehttpd-upstreams", kLayoutVersion, measure.used() + 64, 0));
  // The segment is zeroed, which is the first state of all but locks and weights.
  Cutter cutter(segment_.data());
  for (Zone& zone : zones_) {
    Group& group = *zone.group;
    auto* head = cutter.take<ZoneHead>(1);
    head->lock.create();
    const std::span states(cutter.take<PeerState>(group.peers.size()), group.peers.size());
    std::ranges::copy(group.states, states.begin());
    zone.held = cutter.take<std::uint32_t>(kSlotsMax * group.peers.size());
    group.states = states;
    group.lock = &head->lock;
    group.shared = this;
  }
  return {};
}

std::size_t SharedState::slot() {
  if (slot_ != SIZE_MAX) return slot_;
  slot_ = kSlotsMax;
  shm::Lock* const locks = store_.locks();
  if (locks == nullptr) return slot_;
  for (std::size_t i = 0; i < kSlotsMax && slot_ == kSlotsMax; ++i) {
    if (locks[i].try_take() == shm::Lock::Taken::kNotTaken) continue;
    slot_ = i;
    // A worker that ended in good order has not necessarily given everything back either.
    recover(i);
  }
  for (Zone& zone : zones_) {
    zone.group->held = slot_ == kSlotsMax ? nullptr : zone.held + slot_ * zone.group->peers.size();
  }
  return slot_;
}

void SharedState::reap() {
  shm::Lock* const locks = store_.locks();
  if (locks == nullptr) return;
  for (std::size_t i = 0; i < kSlotsMax; ++i) {
    if (i == slot_ || locks[i].try_take() == shm::Lock::Taken::kNotTaken) continue;
    recover(i);
    locks[i].release();
  }
}

// Gives back what the last owner of the slot had counted.
void SharedState::recover(std::size_t slot) {
  for (Zone& zone : zones_) {
    const shm::Guard guard(zone.group->lock);
    std::uint32_t* held = zone.held + slot * zone.group->peers.size();
    for (std::size_t i = 0; i < zone.group->peers.size(); ++i) {
      std::uint32_t& connections = zone.group->states[i].connections;
      connections -= std::min(connections, std::exchange(held[i], 0));
    }
  }
  store_.recover(slot, slot == slot_);
}

void SharedState::watch(io::Loop& loop, Backend& backend) {
  watching_.push_back(&backend);
  if (loop_ != nullptr) return;
  loop_ = &loop;
  loop.poll(store_.wake_fd(slot_), POLLIN, watch_);
}

void SharedState::on_woken() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(store_.wake_fd(slot_), &count, sizeof(count));
  // Asked anew first: what is said from here on wakes us again.
  loop_->poll(store_.wake_fd(slot_), POLLIN, watch_);
  for (Backend* backend : watching_) backend->dispatch();
}

void SharedState::wake(std::size_t slot) {
  const std::uint64_t one = 1;
  // It can only fail when the counter is at its end: the other is going to be woken anyway.
  [[maybe_unused]] const ssize_t written = ::write(store_.wake_fd(slot), &one, sizeof(one));
}

}  // namespace corehttpd::upstream
