#include "corehttpd/base/json.h"

#include <gtest/gtest.h>

#include <random>

namespace corehttpd {
namespace {

// An independent, strict reader of what stands between the quotes of a JSON string in UTF-8.
bool valid_json_string(const std::string& s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto at = [&](std::size_t k) {
      return k < s.size() ? static_cast<unsigned char>(s[k]) : 0u;
    };
    const unsigned c = at(i);
    if (c < 0x20 || c == '"') return false;
    if (c == '\\') {
      if (std::string_view("\"\\/bfnrt").find(static_cast<char>(at(i + 1))) !=
              std::string_view::npos &&
          i + 1 < s.size()) {
        i += 2;
        continue;
      }
      if (at(i + 1) != 'u') return false;
      for (std::size_t k = i + 2; k < i + 6; ++k) {
        if (k >= s.size() || !std::isxdigit(static_cast<unsigned char>(s[k]))) return false;
      }
      i += 6;
      continue;
    }
    unsigned code = c;
    std::size_t length = 1;
    if (c >= 0xf0) {
      code = c & 7, length = 4;
    } else if (c >= 0xe0) {
      code = c & 15, length = 3;
    } else if (c >= 0xc0) {
      code = c & 31, length = 2;
    } else if (c >= 0x80) {
      return false;
    }
    if (c > 0xf7) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((at(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (at(i + k) & 63);
    }
    constexpr unsigned kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += length;
  }
  return true;
}

std::string escaped(std::string_view value, std::size_t bytes_max = SIZE_MAX) {
  std::string out;
  append_json(out, value, bytes_max);
  return out;
}

TEST(Json, EscapesWhatHasToBe) {
  EXPECT_EQ(escaped("a\"b\\c\n\r\t\b\f\x01\x1f\x7f"),
            "a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001F\x7f");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\u0000");
}

TEST(Json, KeepsUtf8) {
  const std::string text = "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf";
  EXPECT_EQ(escaped(text), text);
}

TEST(Json, ReplacesEachByteThatIsNone) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(escaped("a\xff\xfe z"), "a" + r + r + " z");
  EXPECT_EQ(escaped("\xc0\xaf"), r + r);                  // Overlong.
  EXPECT_EQ(escaped("\xed\xa0\x80"), r + r + r);          // A surrogate.
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), r + r + r + r);  // Above U+10FFFF.
  EXPECT_EQ(escaped("\xe2\x82"), r + r);                  // Cut short.
}

TEST(Json, StopsBetweenCharacters) {
  EXPECT_EQ(escaped("abc", 2), "ab");
  EXPECT_EQ(escaped("a\"b", 2), "a");
  EXPECT_EQ(escaped("\xc3\xbcx", 1), "");
}

TEST(Json, IsValidForAnyBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string value(random() % 40, '\0');
    for (char& c : value) {
      // Mostly what makes up UTF-8, and what has to be escaped.
      static constexpr unsigned char kLikely[] = {0xc3, 0xbc, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98,
                                                  0x80, 0xed, 0xa0, 0xf4, 0x90, '"',  '\\', '\n'};
      c = static_cast<char>(random() % 2 == 0 ? kLikely[random() % sizeof(kLikely)] : random());
    }
    const std::size_t most = random() % 3 == 0 ? random() % 30 : SIZE_MAX;
    const std::string out = escaped(value, most);
    ASSERT_TRUE(valid_json_string(out)) << testing::PrintToString(value);
    ASSERT_LE(out.size(), most);
  }
}

}  // namespace
}  // namespace corehttpd
