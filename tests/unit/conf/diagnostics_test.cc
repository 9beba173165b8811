#include "corehttpd/conf/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace corehttpd::conf {
namespace {

using testing::HasSubstr;

// One diagnostic over text, formatted.
std::string shown(std::string_view text, std::uint32_t line, std::uint32_t column,
                  std::size_t width) {
  Diagnostics diagnostics;
  diagnostics.remember_source("f", text);
  diagnostics.add(Severity::kError, {"f", line, column}, "m", {}, width);
  return diagnostics.format(diagnostics.all()[0]);
}

TEST(Diagnostics, CaretAndWidth) {
  EXPECT_EQ(shown("abc def\n", 1, 5, 3), "corehttpd: [emerg] m in f:1:5\nabc def\n    ^~~");
  EXPECT_EQ(shown("x\nabc", 2, 1, 1), "corehttpd: [emerg] m in f:2:1\nabc\n^");
}

TEST(Diagnostics, WidthEndsWithTheLine) {
  EXPECT_EQ(shown("a 'two\nlines';", 1, 3, 12), "corehttpd: [emerg] m in f:1:3\na 'two\n  ^~~~");
  EXPECT_EQ(shown("ab", 1, 9, 4), "corehttpd: [emerg] m in f:1:9\nab\n  ^");
}

TEST(Diagnostics, TabsAndUtf8KeepTheCaretInPlace) {
  EXPECT_EQ(shown("\ta\tbc", 1, 4, 2), "corehttpd: [emerg] m in f:1:4\n\ta\tbc\n\t \t^~");
  EXPECT_EQ(shown("\xc3\xa4\xe2\x82\xac x\xc3\xa4y", 1, 7, 4),
            "corehttpd: [emerg] m in f:1:7\n\xc3\xa4\xe2\x82\xac x\xc3\xa4y\n   ^~~");
}

TEST(Diagnostics, LongLinesAreCutAroundThePlace) {
  const std::string text = std::string(500, 'a') + "HERE" + std::string(500, 'b');
  const std::string out = shown(text, 1, 501, 4);
  EXPECT_THAT(out, HasSubstr("\n..." + std::string(60, 'a') + "HERE" + std::string(96, 'b') +
                             "...\n" + std::string(63, ' ') + "^~~~"));
}

TEST(Diagnostics, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_THAT(shown("a\x1b[31mb\r", 1, 1, 1), HasSubstr("\na?[31mb\n"));
}

TEST(Diagnostics, PlacesThatAreUnknown) {
  Diagnostics diagnostics;
  diagnostics.add(Severity::kWarning, {}, "no place");
  diagnostics.add(Severity::kNotice, {"gone", 3, 4}, "no text");
  EXPECT_EQ(diagnostics.format_all(),
            "corehttpd: [warn] no place\ncorehttpd: [notice] no text in gone:3:4\n");
  EXPECT_EQ(diagnostics.warnings(), 1u);
  EXPECT_EQ(diagnostics.errors(), 0u);
}

TEST(Diagnostics, KeepsABoundedNumber) {
  Diagnostics diagnostics;
  for (int i = 0; i < 2500; ++i) diagnostics.add(Severity::kNotice, {}, "n");
  diagnostics.add(Severity::kError, {}, "e");
  EXPECT_EQ(diagnostics.all().size(), Diagnostics::kKeptMax + 1);  // Notices never hide an error.
  EXPECT_EQ(diagnostics.errors(), 1u);
  EXPECT_TRUE(
      diagnostics.format_all().ends_with("corehttpd: [notice] 500 more messages not shown\n"));
}

TEST(Diagnostics, Json) {
  Diagnostics diagnostics;
  EXPECT_EQ(diagnostics.format_json(), "[]\n");
  diagnostics.remember_source("f", "a \"b\"\x01\xff \xc3\xa4 \xed\xa0\x80;");
  diagnostics.add(Severity::kError, {"f", 1, 3}, "bad \"b\"\n", "try \\", 3);
  diagnostics.add(Severity::kNotice, {}, "n");
  EXPECT_EQ(diagnostics.format_json(),
            "[\n"
            "{\"severity\":\"error\",\"file\":\"f\",\"line\":1,\"column\":3,\"width\":3,"
            "\"message\":\"bad \\\"b\\\"?\",\"hint\":\"try \\\\\","
            "\"text\":\"a \\\"b\\\"\\u0001\xef\xbf\xbd \xc3\xa4 "
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd;\"},\n"
            "{\"severity\":\"notice\",\"file\":\"\",\"line\":0,\"column\":0,\"width\":1,"
            "\"message\":\"n\",\"hint\":\"\",\"text\":\"\"}\n"
            "]\n");
}

}  // namespace
}  // namespace corehttpd::conf
