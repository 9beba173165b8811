#include "io/timer_wheel.h"

#include <algorithm>
#include <bit>

namespace corehttpd::io {

void TimerWheel::schedule(Timer& timer, Milliseconds due) {
  timer.due_ms_ = due;
  // Later than where it is filed: left there, and filed anew when that slot comes up. A connection
  // whose timer moves with every request touches no list until the first time would have run out.
  if (timer.linked() && due >= timer.filed_ms_) return;
  file(timer);
}

void TimerWheel::file(Timer& timer) {
  const Milliseconds due = timer.due_ms_;
  const Milliseconds ahead = due - now_;
  timer.filed_ms_ = due;
  if (ahead <= 0) {
    overdue_.push_back(timer);
    next_ = std::min(next_, now_);
    return;
  }
  unsigned level = 0;
  while (level + 1 < kLevels && ahead >= Milliseconds{1} << (kSlotBits * (level + 1))) ++level;
  constexpr Milliseconds kReach = Milliseconds{1} << (kSlotBits * kLevels);
  const unsigned shift = kSlotBits * level;
  // Beyond the last wheel's reach the slot just behind the present one comes up last.
  const Milliseconds at = ahead < kReach ? due >> shift : (now_ >> shift) + kSlots - 1;
  const unsigned slot = static_cast<unsigned>(at) % kSlots;
  timer.filed_ms_ = at << shift;
  next_ = std::min(next_, timer.filed_ms_);
  levels_[level].slots[slot].push_back(timer);
  levels_[level].occupied[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

unsigned TimerWheel::distance(unsigned level) {
  Level& wheel = levels_[level];
  const unsigned first = (static_cast<unsigned>(now_ >> (kSlotBits * level)) + 1) % kSlots;
  // Up to five words: the first one is looked at twice, its high part first and its low part last.
  for (unsigned step = 0; step <= kSlots / 64; ++step) {
    const unsigned word = (first / 64 + step) % (kSlots / 64);
    std::uint64_t bits = wheel.occupied[word];
    if (step == 0) bits &= ~std::uint64_t{0} << (first % 64);
    if (step == kSlots / 64) bits &= ~(~std::uint64_t{0} << (first % 64));
    while (bits != 0) {
      const unsigned slot = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
      if (!wheel.slots[slot].empty()) return (slot + kSlots - first) % kSlots + 1;
      wheel.occupied[word] &= ~(std::uint64_t{1} << (slot % 64));
      bits &= bits - 1;
    }
  }
  return 0;
}

Milliseconds TimerWheel::find_next() {
  if (!overdue_.empty()) return now_;
  Milliseconds earliest = kNever;
  for (unsigned level = 0; level < kLevels; ++level) {
    const unsigned slots = distance(level);
    const unsigned shift = kSlotBits * level;
    if (slots != 0) earliest = std::min(earliest, ((now_ >> shift) + slots) << shift);
  }
  return earliest;
}

void TimerWheel::turn_to(Milliseconds now, TimerList& expired) {
  now_ = now;
  // From the coarsest wheel down, since what leaves one may belong to a slot of the next that
  // begins now as well.
  for (unsigned level = kLevels; level-- > 0;) {
    const unsigned shift = kSlotBits * level;
    if ((now & ((Milliseconds{1} << shift) - 1)) != 0) continue;
    const unsigned slot = static_cast<unsigned>(now >> shift) % kSlots;
    TimerList due;
    due.splice_back(levels_[level].slots[slot]);
    while (Timer* timer = due.pop_front()) {
      if (timer->due_ms_ > now_) {
        file(*timer);
      } else {
        timer->filed_ms_ = timer->due_ms_;
        expired.push_back(*timer);
      }
    }
  }
}

void TimerWheel::advance(Milliseconds now) {
  now = std::max(now_, now);
  if (now < next_) {
    now_ = now;
    return;
  }
  TimerList expired;
  expired.splice_back(overdue_);
  for (Milliseconds at = find_next(); at <= now; at = find_next()) turn_to(at, expired);
  now_ = now;
  next_ = find_next();
  while (Timer* timer = expired.pop_front()) {
    // One that fired before it may have moved this one to later.
    if (timer->due_ms_ > now_) {
      file(*timer);
    } else {
      timer->fire_(*timer);
    }
  }
}

}  // namespace corehttpd::io
