#include "proto/rate_pacer.h"

#include <gtest/gtest.h>

namespace corehttpd::proto {
namespace {

// Takes all that is allowed, waiting as told, until bytes are gone; how long that took and how
// often it was woken.
struct Course {
  Milliseconds took_ms = 0;
  int wakes = 0;
};
Course run(RatePacer& pacer, std::uint64_t bytes, std::uint64_t most = UINT64_MAX) {
  Course course;
  while (bytes > 0 && course.wakes < 100'000) {
    const std::uint64_t wanted = std::min(bytes, most);
    const std::uint64_t allowed = pacer.allowance(wanted, course.took_ms);
    if (allowed == 0) {
      ++course.wakes;
      course.took_ms += pacer.wait_ms(wanted, course.took_ms);
      continue;
    }
    EXPECT_LE(allowed, wanted);
    pacer.take(allowed);
    bytes -= allowed;
  }
  EXPECT_EQ(bytes, 0u);
  return course;
}

TEST(RatePacer, WithoutALimitAllIsAllowed) {
  RatePacer pacer;
  EXPECT_FALSE(pacer.limited());
  EXPECT_EQ(pacer.allowance(UINT64_MAX, 0), UINT64_MAX);
  pacer.begin(0, 1000, 0);
  EXPECT_FALSE(pacer.limited());
}

TEST(RatePacer, KeepsToItsRateWithFewWakes) {
  for (const std::uint64_t rate : {1u, 3u, 100u, 1000u, 50'000u, 3'000'000u}) {
    RatePacer pacer;
    pacer.begin(rate, 0, 0);
    const Course course = run(pacer, 5 * rate);
    // The first eighth of a second's worth is there at once, of small rates the first byte.
    EXPECT_GE(course.took_ms, rate < 8 ? 3500 : 4800) << rate;
    EXPECT_LE(course.took_ms, 5100) << rate;
    EXPECT_LE(course.wakes, 50) << rate;
  }
}

TEST(RatePacer, SmallPiecesTakeNoLonger) {
  RatePacer pacer;
  pacer.begin(100'000, 0, 0);
  const Course course = run(pacer, 500'000, 1400);
  EXPECT_GE(course.took_ms, 4800);
  EXPECT_LE(course.took_ms, 5100);
}

TEST(RatePacer, TheBeginningMayBeUnlimited) {
  RatePacer pacer;
  pacer.begin(1000, 10'000, 0);
  EXPECT_EQ(pacer.allowance(10'000, 0), 10'000u);
  const Course course = run(pacer, 11'000);
  EXPECT_GE(course.took_ms, 850);
  EXPECT_LE(course.took_ms, 1100);
}

TEST(RatePacer, AClientThatWasSlowMayCatchUp) {
  RatePacer pacer;
  pacer.begin(1000, 0, 0);
  EXPECT_GE(pacer.allowance(UINT64_MAX, 10'000), 10'000u);
}

TEST(RatePacer, NumbersAtTheEnds) {
  RatePacer pacer;
  pacer.begin(UINT64_MAX, UINT64_MAX, 0);
  EXPECT_GT(pacer.allowance(1u << 30, 0), 0u);
  EXPECT_GT(pacer.allowance(1u << 30, INT64_MAX / 2), 0u);
  RatePacer slow;
  slow.begin(1, 0, 1'000'000);
  EXPECT_EQ(slow.allowance(10, 0), 1u);  // A clock that went back earns nothing, and takes nothing.
  slow.take(1);
  EXPECT_EQ(slow.allowance(10, 1'000'000), 0u);
  const Milliseconds wait = slow.wait_ms(UINT64_MAX, 1'000'000);
  EXPECT_GE(wait, 1);
  EXPECT_LE(wait, 86'400'001);
}

}  // namespace
}  // namespace corehttpd::proto
