#include "server/counters.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace corehttpd::server {

std::uint32_t SharedCounters::take_slot() {
  const auto us = static_cast<std::uint64_t>(::getpid());
  for (std::uint32_t i = 1; i < kSlots; ++i) {
    std::uint64_t user = slots_[i].user.load();
    if (user != 0 && ::kill(static_cast<pid_t>(user), 0) != 0 && errno == ESRCH) {
      release_slot(i);
      user = 0;
    }
    if (user == 0 && slots_[i].user.compare_exchange_strong(user, us)) return i;
  }
  return 0;
}

void SharedCounters::use_slot(std::uint32_t slot) {
  mine_ = slot;
  if (slot != 0) slots_[slot].user = static_cast<std::uint64_t>(::getpid());
}

void SharedCounters::release_slot(std::uint32_t slot) {
  if (slot == 0) return;
  Slot& from = slots_[slot];
  add(slots_[0].accepts, from.accepts.exchange(0));
  add(slots_[0].requests, from.requests.exchange(0));
  from.active = from.reading = from.writing = from.waiting = 0;
  from.user = 0;
}

void SharedCounters::connection_accepted() {
  add(slots_[mine_].accepts, 1);
  add(slots_[mine_].active, 1);
}

void SharedCounters::activity(Activity activity, int change) {
  Slot& slot = slots_[mine_];
  switch (activity) {
    case Activity::kReading:
      return add(slot.reading, change);
    case Activity::kWriting:
      return add(slot.writing, change);
    case Activity::kWaiting:
      return add(slot.waiting, change);
  }
}

http::Counters::Snapshot SharedCounters::snapshot() const {
  std::int64_t accepts = 0, requests = 0, active = 0, reading = 0, writing = 0, waiting = 0;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const Slot& slot = slots_[i];
    accepts += slot.accepts.load(std::memory_order_relaxed);
    requests += slot.requests.load(std::memory_order_relaxed);
    active += slot.active.load(std::memory_order_relaxed);
    reading += slot.reading.load(std::memory_order_relaxed);
    writing += slot.writing.load(std::memory_order_relaxed);
    waiting += slot.waiting.load(std::memory_order_relaxed);
  }
  auto count = [](std::int64_t value) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
  };
  return {count(accepts), count(accepts), count(requests), count(active),
          count(reading), count(writing), count(waiting)};
}

}  // namespace corehttpd::server
