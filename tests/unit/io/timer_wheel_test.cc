#include "io/timer_wheel.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace corehttpd::io {
namespace {

struct Probe : Timer {
  Probe()
      : Timer([](Timer& t) { static_cast<Probe&>(t).fired_at = *static_cast<Probe&>(t).now; }) {}
  const Milliseconds* now = nullptr;
  Milliseconds fired_at = -1;
};

// Advances from event to event, as the loop does, until nothing is scheduled.
void run_out(TimerWheel& wheel, Milliseconds& now) {
  while (wheel.next() != TimerWheel::kNever) {
    now = wheel.next();
    wheel.advance(now);
  }
}

TEST(TimerWheel, FiresAtTheMillisecondOnEveryLevel) {
  // Around each level's reach and beyond the last one (2^32 ms).
  for (const Milliseconds after :
       {Milliseconds{1}, Milliseconds{255}, Milliseconds{256}, Milliseconds{257}, Milliseconds{511},
        Milliseconds{65'535}, Milliseconds{65'536}, Milliseconds{65'537}, Milliseconds{16'777'215},
        Milliseconds{16'777'216}, Milliseconds{4'294'967'295}, Milliseconds{4'294'967'296},
        Milliseconds{30'000'000'000}}) {
    for (const Milliseconds start :
         {Milliseconds{0}, Milliseconds{255}, Milliseconds{65'535}, Milliseconds{123'456'789}}) {
      Milliseconds now = start;
      TimerWheel wheel(now);
      Probe probe;
      probe.now = &now;
      wheel.schedule(probe, start + after);
      EXPECT_LE(wheel.next(), start + after);
      EXPECT_GT(wheel.next(), start);
      run_out(wheel, now);
      EXPECT_EQ(start + after, probe.fired_at) << start << " + " << after;
    }
  }
}

TEST(TimerWheel, OverdueFiresAtTheNextAdvance) {
  Milliseconds now = 1000;
  TimerWheel wheel(now);
  Probe probe;
  probe.now = &now;
  wheel.schedule(probe, 1000);
  EXPECT_EQ(-1, probe.fired_at);
  EXPECT_EQ(1000, wheel.next());
  wheel.advance(1000);
  EXPECT_EQ(1000, probe.fired_at);
  EXPECT_EQ(TimerWheel::kNever, wheel.next());
}

TEST(TimerWheel, RescheduledInsideItsOwnFireRunsNextTime) {
  struct Repeater : Timer {
    explicit Repeater(TimerWheel& w)
        : Timer([](Timer& t) { static_cast<Repeater&>(t).again(); }), wheel(w) {}
    void again() {
      ++fires;
      wheel.schedule(*this, 0);
    }
    TimerWheel& wheel;
    int fires = 0;
  };
  TimerWheel wheel(10);
  Repeater repeater(wheel);
  wheel.schedule(repeater, 5);
  wheel.advance(10);
  EXPECT_EQ(1, repeater.fires);
  wheel.advance(10);
  EXPECT_EQ(2, repeater.fires);
  wheel.cancel(repeater);
}

TEST(TimerWheel, FiringOneMayMoveOrCancelAnotherThatIsDue) {
  struct Meddler : Timer {
    Meddler(TimerWheel& w, Timer& m, Timer& c)
        : Timer([](Timer& t) {
            auto& self = static_cast<Meddler&>(t);
            self.wheel.schedule(self.moved, 500);
            self.wheel.cancel(self.cancelled);
          }),
          wheel(w),
          moved(m),
          cancelled(c) {}
    TimerWheel& wheel;
    Timer& moved;
    Timer& cancelled;
  };
  Milliseconds now = 0;
  TimerWheel wheel(now);
  Probe moved, cancelled;
  moved.now = cancelled.now = &now;
  Meddler meddler(wheel, moved, cancelled);
  wheel.schedule(meddler, 10);
  wheel.schedule(moved, 11);
  wheel.schedule(cancelled, 12);
  now = 100;  // A long turn: all three are due at once.
  wheel.advance(now);
  EXPECT_EQ(-1, moved.fired_at);
  EXPECT_EQ(-1, cancelled.fired_at);
  run_out(wheel, now);
  EXPECT_EQ(500, moved.fired_at);
  EXPECT_EQ(-1, cancelled.fired_at);
}

TEST(TimerWheel, AgreesWithASortedList) {
  std::mt19937_64 random(5);
  Milliseconds now = 77;
  TimerWheel wheel(now);
  std::vector<Probe> probes(200);
  std::vector<Milliseconds> due(probes.size(), -1);
  for (Probe& probe : probes) probe.now = &now;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t which = random() % probes.size();
    const unsigned action = random() % 10;
    if (action < 6) {
      const Milliseconds after =
          static_cast<Milliseconds>(random() % (std::uint64_t{1} << (random() % 20)));
      wheel.schedule(probes[which], now + after);
      probes[which].fired_at = -1;
      due[which] = now + after;
    } else if (action < 7) {
      wheel.cancel(probes[which]);
      due[which] = -1;
    } else {
      now += static_cast<Milliseconds>(random() % (std::uint64_t{1} << (random() % 12)));
      wheel.advance(now);
      for (std::size_t i = 0; i < probes.size(); ++i) {
        const bool expected = due[i] >= 0 && due[i] <= now;
        ASSERT_EQ(expected, probes[i].fired_at >= 0) << "step " << step << " timer " << i;
        ASSERT_EQ(due[i] > now, probes[i].scheduled());
        if (expected) {
          ASSERT_EQ(now, probes[i].fired_at);
          due[i] = -1;
          probes[i].fired_at = -1;
        }
      }
      Milliseconds earliest = TimerWheel::kNever;
      for (const Milliseconds d : due) {
        if (d >= 0) earliest = std::min(earliest, d);
      }
      ASSERT_LE(wheel.next(), earliest);
    }
  }
}

}  // namespace
}  // namespace corehttpd::io
