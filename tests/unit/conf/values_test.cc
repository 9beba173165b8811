#include "corehttpd/conf/values.h"

#include <gtest/gtest.h>

#include "unit/conf/probe.h"

namespace corehttpd::conf {
namespace {

constexpr Milliseconds kSecond = 1000;
constexpr Milliseconds kHour = 3600 * kSecond;
constexpr Milliseconds kDay = 24 * kHour;

TEST(Values, Sizes) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("10"), 10u);
  EXPECT_EQ(parse_size("512k"), 524288u);
  EXPECT_EQ(parse_size("8M"), 8388608u);
  EXPECT_EQ(parse_size("1g"), 1073741824u);
  EXPECT_EQ(parse_size("9223372036854775807"), 9223372036854775807u);
  for (const char* bad : {"", "k", "1kb", "-1", "+1", "1.5m", " 1", "1 ", "1t", "0x10",
                          "9223372036854775808", "8589934592g", "99999999999999999999"}) {
    EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_size("8589934591g"), 8589934591u * 1073741824u);
}

TEST(Values, Times) {
  EXPECT_EQ(parse_time_ms("30"), 30 * kSecond);
  EXPECT_EQ(parse_time_ms("0"), 0);
  EXPECT_EQ(parse_time_ms("500ms"), 500);
  EXPECT_EQ(parse_time_ms("10s"), 10 * kSecond);
  EXPECT_EQ(parse_time_ms("5m"), 300 * kSecond);
  EXPECT_EQ(parse_time_ms("1h 30m"), kHour + kHour / 2);
  EXPECT_EQ(parse_time_ms("1h30m"), kHour + kHour / 2);
  EXPECT_EQ(parse_time_ms("1d12h"), kDay + 12 * kHour);
  EXPECT_EQ(parse_time_ms("2w"), 14 * kDay);
  EXPECT_EQ(parse_time_ms("1M"), 30 * kDay);
  EXPECT_EQ(parse_time_ms("1y"), 365 * kDay);
  EXPECT_EQ(parse_time_ms("1y1M1w1d1h1m1s1ms"),
            365 * kDay + 30 * kDay + 7 * kDay + kDay + kHour + 60 * kSecond + kSecond + 1);
  EXPECT_EQ(parse_time_ms("1m 30"), 90 * kSecond);
  EXPECT_EQ(parse_time_ms("1h "), kHour);
}

TEST(Values, MalformedTimes) {
  for (const char* bad :
       {"", "s", "1x", "30m1h", "1h1h", "1s 30", "-1", "1.5s", " 1s", "1 h", "1ms1s", "1H", "1h m",
        "9223372036854775808", "9223372036854775807s", "292471209y", "1sec"}) {
    EXPECT_EQ(parse_time_ms(bad), std::nullopt) << bad;
  }
}

TEST(Values, Flags) {
  EXPECT_EQ(parse_flag("on"), true);
  EXPECT_EQ(parse_flag("OFF"), false);
  EXPECT_EQ(parse_flag("yes"), std::nullopt);
  EXPECT_EQ(parse_flag(""), std::nullopt);
}

TEST(Values, SettersStoreWhatTheyRead) {
  auto out = probe::compile(
      "gzip OFF; limit 2k; timeout 5s; workers 64; color Green; path logs/x; env a;");
  ASSERT_NE(out.configuration, nullptr) << out.diagnostics.format_all();
  EXPECT_FALSE(out.root().gzip);
  EXPECT_EQ(out.root().limit, 2048u);
  EXPECT_EQ(out.root().timeout, 5000);
  EXPECT_EQ(out.root().workers, 64u);
  EXPECT_EQ(out.root().color, 2);
  EXPECT_EQ(out.root().root, "/srv/logs/x");
}

TEST(Values, PathsFromThePrefix) {
  EXPECT_EQ(probe::compile("path /abs;").root().root, "/abs");
  EXPECT_EQ(probe::compile("path x;", {.prefix = "/p", .path = "t"}).root().root, "/p/x");
  EXPECT_EQ(probe::compile("path x;", {.path = "t"}).root().root, "x");
}

TEST(Values, MessagesAreThoseOfNginx) {
  using probe::complaints;
  EXPECT_EQ(complaints("gzip 'x';"),
            "corehttpd: [emerg] invalid value \"x\" in \"gzip\" directive, it must be \"on\" or "
            "\"off\" in t.conf:1:6\n"
            "gzip 'x';\n"
            "     ^~~\n");
  EXPECT_EQ(complaints("limit 1kb;"),
            "corehttpd: [emerg] \"limit\" directive invalid value in t.conf:1:7\n"
            "limit 1kb;\n"
            "      ^~~\n"
            "  help: a size is a number of bytes, or with k, m or g: 512k\n");
  EXPECT_EQ(complaints("timeout soon;"),
            "corehttpd: [emerg] \"timeout\" directive invalid value in t.conf:1:9\n"
            "timeout soon;\n"
            "        ^~~~\n"
            "  help: a time is a number of seconds, or with units y M w d h m s ms: 1h30m\n");
  EXPECT_EQ(complaints("workers auto;"),
            "corehttpd: [emerg] \"workers\" directive invalid number in t.conf:1:9\n"
            "workers auto;\n"
            "        ^~~~\n"
            "  help: it takes a whole number from 1 to 64\n");
  EXPECT_EQ(complaints("workers 65;"),
            "corehttpd: [emerg] value must be between 1 and 64 in t.conf:1:9\n"
            "workers 65;\n"
            "        ^~\n");
  EXPECT_EQ(complaints("color blue;"),
            "corehttpd: [emerg] invalid value \"blue\" in t.conf:1:7\n"
            "color blue;\n"
            "      ^~~~\n"
            "  help: \"color\" takes one of: red, green\n");
}

}  // namespace
}  // namespace corehttpd::conf
