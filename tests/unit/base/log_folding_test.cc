#include "base/log_folding.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace corehttpd {
namespace {

std::vector<LogFolding::Folded> g_written;

class Folding : public testing::Test {
 protected:
  void SetUp() override { g_written.clear(); }
  bool admit(std::string_view message, std::string_view client = "a",
             LogLevel level = LogLevel::kError) {
    return folding_.admit(&target_, level, message, client, now_);
  }
  int admitted(int times, std::string_view message, std::string_view client = "a",
               LogLevel level = LogLevel::kError) {
    int count = 0;
    for (int i = 0; i < times; ++i) count += admit(message, client, level) ? 1 : 0;
    return count;
  }

  LogTarget target_, other_;
  Milliseconds now_ = 1000;
  LogFolding folding_{[](const LogFolding::Folded& folded) { g_written.push_back(folded); }};
};

constexpr int kFirst = LogFolding::kLinesPerWindow;

TEST_F(Folding, CountsWhatItKeepsBack) {
  EXPECT_EQ(admitted(100, "m"), kFirst);
  EXPECT_TRUE(folding_.pending());
  folding_.flush(false, now_ + 999);
  EXPECT_TRUE(g_written.empty());
  folding_.flush(false, now_ + 1000);
  ASSERT_EQ(g_written.size(), 1u);
  EXPECT_EQ(g_written[0].count, 100u - kFirst);
  EXPECT_EQ(g_written[0].message, "m");
  EXPECT_EQ(g_written[0].client, "a");
  EXPECT_FALSE(folding_.pending());
}

TEST_F(Folding, BeginsAnewEachSecond) {
  admitted(50, "m");
  now_ += 1000;
  EXPECT_EQ(admitted(50, "m"), kFirst);  // And the sum of the second before is written.
  ASSERT_EQ(g_written.size(), 1u);
  folding_.flush(true, now_);
  EXPECT_EQ(g_written.size(), 2u);
}

TEST_F(Folding, AClockThatStepsBackHoldsNothing) {
  admitted(50, "m");
  now_ -= 500;
  EXPECT_TRUE(admit("m"));
}

TEST_F(Folding, OnlyEqualLines) {
  admitted(kFirst, "m");
  EXPECT_FALSE(admit("m"));
  EXPECT_TRUE(admit("m2"));
  EXPECT_TRUE(admit("m", "b"));
  EXPECT_TRUE(admit("m", ""));
  EXPECT_TRUE(admit("m", "a", LogLevel::kWarn));
  EXPECT_TRUE(folding_.admit(&other_, LogLevel::kError, "m", "a", now_));
}

TEST_F(Folding, NeverTheWorstNorDebugNorLongLines) {
  for (LogLevel level : {LogLevel::kEmerg, LogLevel::kAlert, LogLevel::kDebug})
    EXPECT_EQ(admitted(100, "m", "a", level), 100);
  EXPECT_EQ(admitted(100, std::string(LogFolding::kMessageMax + 1, 'x')), 100);
}

// More floods than the table holds: nothing is lost, nothing is folded wrongly.
TEST_F(Folding, ManyFloodsAtATime) {
  int written = 0;
  constexpr int kMessages = 500, kEach = 30;
  for (int round = 0; round < kEach; ++round) {
    for (int m = 0; m < kMessages; ++m) written += admit("message " + std::to_string(m)) ? 1 : 0;
  }
  folding_.flush(true, now_);
  std::uint64_t folded = 0;
  for (const auto& one : g_written) folded += one.count;
  EXPECT_EQ(static_cast<std::uint64_t>(written) + folded, std::uint64_t{kMessages} * kEach);
  for (int i = 0; i < 40; ++i) admit("again");
  EXPECT_TRUE(folding_.pending());
}

TEST_F(Folding, ForgetSaysNothing) {
  admitted(100, "m");
  folding_.forget();
  folding_.flush(true, now_);
  EXPECT_TRUE(g_written.empty());
  EXPECT_TRUE(admit("m"));
}

}  // namespace
}  // namespace corehttpd
