// Hierarchical timer wheel, in user space because a kernel timeout costs a request each (0.6 µs
// and 352 B per timer). Scheduling and cancelling are O(1); moving a timer to a later time, which
// every request does to its connection's timer, writes one word.
#pragma once

#include <array>
#include <cstdint>

#include "corehttpd/base/list.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::io {

class TimerWheel {
 public:
  // Times of any epoch, as long as they never run backwards.
  explicit TimerWheel(Milliseconds now) : now_(now) {}

  // due in the past fires at the next advance(), never inside this call.
  void schedule(Timer& timer, Milliseconds due);
  void cancel(Timer& timer) { timer.unlink(); }
  // Fires what is due up to now, in order of time. Timers that this schedules fire at the next call
  // at the earliest.
  void advance(Milliseconds now);
  // When advance() next has something to do: never after the first timer is due, but possibly
  // before it, since moved, cancelled and far timers are looked at on the way. kNever: nothing is
  // scheduled.
  static constexpr Milliseconds kNever = INT64_MAX;
  Milliseconds next() const { return next_; }

 private:
  // Four wheels of 256 slots: of 1 ms, 256 ms, 65.5 s and 4.66 h each; 49 days in all. What is
  // later waits in the last slot and is filed anew when that comes up.
  static constexpr unsigned kLevels = 4;
  static constexpr unsigned kSlotBits = 8;
  static constexpr unsigned kSlots = 1U << kSlotBits;
  using TimerList = List<Timer, TimerTag>;
  struct Level {
    std::array<TimerList, kSlots> slots;
    // Which slots may hold timers. Timers leave without telling, so that a bit may be stale; it is
    // cleared when seen.
    std::array<std::uint64_t, kSlots / 64> occupied{};
  };

  void file(Timer& timer);
  Milliseconds find_next();
  // Slots from now_ to the next occupied one of a level, 1 to kSlots; 0 when it is empty.
  unsigned distance(unsigned level);
  // Empties the slots that begin at now into expired, or into lower levels.
  void turn_to(Milliseconds now, TimerList& expired);

  std::array<Level, kLevels> levels_;
  TimerList overdue_;  // Scheduled for a time that had come already.
  Milliseconds now_;
  Milliseconds next_ = kNever;  // No slot before this time holds a timer.
};

}  // namespace corehttpd::io
