#include "corehttpd/http/range.h"

#include <gtest/gtest.h>

#include <string>

namespace corehttpd::http {
namespace {

constexpr std::uint64_t kNoLimit = UINT64_MAX;

// "whole", "416", or the ranges as "first-end" separated by blanks.
std::string ranges(std::string_view value, std::uint64_t length = 1000,
                   std::uint64_t max_ranges = kNoLimit) {
  Arena arena;
  const RangeSet set = parse_ranges(arena, value, length, max_ranges);
  if (set.kind == RangeSet::Kind::kWhole) return "whole";
  if (set.kind == RangeSet::Kind::kUnsatisfiable) return "416";
  std::string text;
  for (const ByteRange& range : set.ranges)
    text +=
        (text.empty() ? "" : " ") + std::to_string(range.first) + "-" + std::to_string(range.end);
  return text;
}

TEST(Range, Single) {
  EXPECT_EQ(ranges("bytes=0-0"), "0-1");
  EXPECT_EQ(ranges("bytes=0-99"), "0-100");
  EXPECT_EQ(ranges("bytes=500-"), "500-1000");
  EXPECT_EQ(ranges("bytes=0-"), "0-1000");
  EXPECT_EQ(ranges("bytes=-1"), "999-1000");
  EXPECT_EQ(ranges("bytes=-1000"), "0-1000");
  EXPECT_EQ(ranges("bytes=-5000"), "0-1000");
  EXPECT_EQ(ranges("bytes=0-999999"), "0-1000");
  EXPECT_EQ(ranges("bytes=999-999"), "999-1000");
  EXPECT_EQ(ranges("BYTES=1-2"), "1-3");
  EXPECT_EQ(ranges("bytes= 1-2 "), "1-3");
  EXPECT_EQ(ranges("bytes=0-18446744073709551616"), "0-1000");
  EXPECT_EQ(ranges("bytes=-99999999999999999999999"), "0-1000");
}

TEST(Range, UnsatisfiableOnlyWhenNothingIsWithin) {
  EXPECT_EQ(ranges("bytes=1000-"), "416");
  EXPECT_EQ(ranges("bytes=1000-2000"), "416");
  EXPECT_EQ(ranges("bytes=-0"), "416");
  EXPECT_EQ(ranges("bytes=18446744073709551615-"), "416");
  EXPECT_EQ(ranges("bytes=99999999999999999999-"), "416");
  EXPECT_EQ(ranges("bytes=2000-,0-9"), "0-10");
}

TEST(Range, OtherUnitsAndRangesUpsideDownAreIgnored) {
  for (std::string_view value : {"", "bytes", "bytes=", "bytes=,", "bytes=5-3", "bytes=0-1,5-3",
                                 "items=0-1", "bytes =0-1"}) {
    EXPECT_EQ(ranges(value), "whole") << value;
  }
}

TEST(Range, WhatIsNoRangeIsUnsatisfiable) {
  for (std::string_view value :
       {"bytes=-", "bytes=a-b", "bytes=1", "bytes=1-2x", "bytes=0-1,x", "bytes=1--2", "bytes=+1-2",
        "bytes=1-2-3", "bytes=0x1-2", "bytes=0-1;2-3", "bytes=10-11 12-", "bytes=alpha"}) {
    EXPECT_EQ(ranges(value), "416") << value;
  }
}

TEST(Range, BlanksAroundNumbers) {
  EXPECT_EQ(ranges("bytes=1 - 2"), "1-3");
  EXPECT_EQ(ranges("bytes= 1- , -\t5 "), "whole");  // More than there is.
  EXPECT_EQ(ranges("bytes= - 5"), "995-1000");
}

TEST(Range, OverlappingOnesAreCoalesced) {
  EXPECT_EQ(ranges("bytes=0-9,5-14"), "0-15");
  EXPECT_EQ(ranges("bytes=0-9,0-9"), "0-10");
  EXPECT_EQ(ranges("bytes=-1,-2"), "998-1000");
  EXPECT_EQ(ranges("bytes=50-59,0-9,55-64"), "0-10 50-65");
  EXPECT_EQ(ranges("bytes=0-99,20-29,90-109"), "0-110");
}

TEST(Range, SeveralKeepTheirOrder) {
  EXPECT_EQ(ranges("bytes=500-599, 0-99"), "500-600 0-100");
  EXPECT_EQ(ranges("bytes=0-9,,20-29,"), "0-10 20-30");
  EXPECT_EQ(ranges("bytes=0-9,10-19"), "0-10 10-20");
}

TEST(Range, NeverMoreThanTheWhole) {
  // A case from the field: eight ranges of a file of 1,024 bytes that come to 1,009 bytes and the
  // parts' heads.
  EXPECT_EQ(ranges("bytes=724-817,888-927,859-931,449-,404-429,860-957,14-18,530-627", 1024),
            "whole");
  EXPECT_EQ(ranges("bytes=0-,0-,0-"), "whole");
  EXPECT_EQ(ranges("bytes=0-499,500-999"), "whole");
}

TEST(Range, MaxRanges) {
  EXPECT_EQ(ranges("bytes=0-9", 1000, 0), "whole");
  EXPECT_EQ(ranges("bytes=0-9", 1000, 1), "0-10");
  EXPECT_EQ(ranges("bytes=0-9,20-29", 1000, 1), "whole");
  EXPECT_EQ(ranges("bytes=0-9,20-29", 1000, 2), "0-10 20-30");
  EXPECT_EQ(ranges("bytes=2000-,0-9", 1000, 1), "0-10");  // Those past the end do not count.
}

TEST(Range, EmptyRepresentation) {
  EXPECT_EQ(ranges("bytes=0-", 0), "whole");
  EXPECT_EQ(ranges("bytes=-5", 0), "whole");
  EXPECT_EQ(ranges("bytes=0-9,5-9", 0), "whole");
  EXPECT_EQ(ranges("bytes=5-9", 0), "416");
  EXPECT_EQ(ranges("bytes=1-,2-", 0), "416");
}

TEST(Range, ContentRange) {
  Arena arena;
  EXPECT_EQ(content_range(arena, {0, 100}, 1000), "bytes 0-99/1000");
  EXPECT_EQ(content_range(arena, {UINT64_MAX - 1, UINT64_MAX}, UINT64_MAX),
            "bytes 18446744073709551614-18446744073709551614/18446744073709551615");
  EXPECT_EQ(unsatisfied_range(arena, 7), "bytes */7");
}

}  // namespace
}  // namespace corehttpd::http
