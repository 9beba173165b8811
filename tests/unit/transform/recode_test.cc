#include <gtest/gtest.h>

#include "transform/recode_source.h"

namespace corehttpd::transform {
namespace {

CharsetMap koi8_utf8() {
  static constexpr CharsetMap::Back kBack[] = {{0x430, '\xc1'}, {0x2500, '\x80'}};
  CharsetMap map;
  map.utf8 = true;
  for (std::size_t i = 0; i < 256; ++i) {
    map.forward[i] = {{i < 0x80 ? static_cast<char>(i) : '?'}, 1};
  }
  map.forward[0xc1] = {{'\xd0', '\xb0'}, 2};
  map.forward[0x80] = {{'\xe2', '\x94', '\x80'}, 3};
  map.backward = kBack;
  return map;
}

// In pieces of every size: the result must not depend on how the body arrives.
void expect_recoded(const Recoding& recoding, std::string_view input, std::string_view output) {
  for (std::size_t piece = 1; piece <= input.size(); ++piece) {
    Recoder recoder(recoding);
    std::string out;
    for (std::size_t at = 0; at < input.size(); at += piece) {
      recoder.append(input.substr(at, piece), out);
    }
    recoder.finish(out);
    EXPECT_EQ(out, output) << "in pieces of " << piece;
  }
}

TEST(Recoder, ToUtf8) {
  const CharsetMap map = koi8_utf8();
  expect_recoded({&map, false}, "a\xc1\x80\xff<", "aа─?<");
}

TEST(Recoder, FromUtf8) {
  const CharsetMap map = koi8_utf8();
  expect_recoded({&map, true}, "aа─€😀<", "a\xc1\x80&#8364;&#128512;<");
}

TEST(Recoder, BrokenUtf8) {
  const CharsetMap map = koi8_utf8();
  // A lone continuation, an overlong form, a surrogate, a character that never ends.
  expect_recoded({&map, true}, "\x80|\xc0\xaf|\xed\xa0\x80|\xe2\x94|\xf0\x9f", "?|??|???|??|??");
}

}  // namespace
}  // namespace corehttpd::transform
