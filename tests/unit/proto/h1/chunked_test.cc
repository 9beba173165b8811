// The chunked coding (case 3 of the field collection).
#include "proto/h1/chunked.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace corehttpd::h1 {
namespace {

struct Decoded {
  std::string data;
  bool ended = false;
  bool malformed = false;
  std::size_t consumed = 0;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

Decoded& feed(ChunkedDecoder& decoder, std::string_view piece, Decoded& out,
              std::size_t data_max = SIZE_MAX) {
  auto input = std::as_bytes(std::span(piece.data(), piece.size()));
  while (!out.ended && !out.malformed) {
    const auto step = decoder.next(input, data_max);
    input = input.subspan(step.consumed);
    out.consumed += step.consumed;
    out.data.append(reinterpret_cast<const char*>(step.data.data()), step.data.size());
    if (step.event == ChunkedDecoder::Event::kNeedInput) break;
    out.ended = step.event == ChunkedDecoder::Event::kEnd;
    out.malformed = step.event == ChunkedDecoder::Event::kMalformed;
  }
  return out;
}

Decoded decode(std::string_view text) {
  ChunkedDecoder decoder;
  Decoded out;
  return feed(decoder, text, out);
}

TEST(Chunked, Decodes) {
  const Decoded out = decode("5\r\nhello\r\nA;x=\"y;z\"\r\n0123456789\r\n0\r\n\r\nNEXT");
  EXPECT_TRUE(out.ended);
  EXPECT_EQ(out.data, "hello0123456789");
  EXPECT_EQ(out.consumed, 38u);
}

TEST(Chunked, BlanksMayStandBeforeAnExtension) {
  const Decoded out = decode("5 \t;a\r\nhello\r\n0 ;b=c\r\n\r\n");
  EXPECT_TRUE(out.ended);
  EXPECT_EQ(out.data, "hello");
  EXPECT_TRUE(decode("5 \r\n").malformed);
  EXPECT_TRUE(decode("5 5\r\n").malformed);
  EXPECT_TRUE(decode("5" + std::string(20'000, ' ')).malformed);
}

TEST(Chunked, ReadsPastTrailers) {
  const Decoded out = decode("1\r\na\r\n0\r\nX-Sum: 1\r\nEmpty:\r\n\r\n");
  EXPECT_TRUE(out.ended);
  EXPECT_EQ(out.data, "a");
}

TEST(Chunked, AnySplitIsTheSame) {
  for (const std::string text : {"5\r\nhello\r\n00a;e=1\r\n0123456789\r\n0;x\r\nA: b\r\n\r\nrest",
                                 "3\r\nabc\r\n3\nabc", "5\r\nhelloX"}) {
    const Decoded whole = decode(text);
    for (std::size_t i = 0; i <= text.size(); ++i) {
      ChunkedDecoder decoder;
      Decoded out;
      feed(decoder, std::string_view(text).substr(0, i), out);
      feed(decoder, std::string_view(text).substr(out.consumed), out);
      EXPECT_EQ(out, whole) << text << " at " << i;
    }
  }
}

TEST(Chunked, Malformed) {
  for (const char* text : {"5\nhello\r\n",
                           "5;x\nhello\r\n",
                           "5\r\nhello\n",
                           "5\r\nhelloX\r\n",
                           "\r\n",
                           "x\r\n",
                           "-1\r\n",
                           "+1\r\n",
                           " 5\r\n",
                           "5 \r\n",
                           "0x5\r\n",
                           "5\rX",
                           "5;a\x01\r\n",
                           "0\r\nXX\r\n\r\n",
                           "0\r\n X: y\r\n\r\n",
                           "0\r\nX : y\r\n\r\n",
                           "0\r\nX: y\n\r\n",
                           "0\r\n\rX",
                           "0\r\n\n",
                           "8000000000000000\r\n",
                           "1000000000000000\r\n",
                           "0000000000000000\r\n"}) {
    const Decoded out = decode(text);
    EXPECT_TRUE(out.malformed) << text;
    EXPECT_FALSE(out.ended) << text;
  }
  // The largest that fits is waited for.
  EXPECT_FALSE(decode("fffffffffffffff\r\n").malformed);
}

TEST(Chunked, NothingIsSwallowedInPlaceOfTheLastLine) {
  // "0\r\nXX": what follows the size must be a trailer or the end; two letters without a colon are
  // neither.
  const Decoded out = decode("0\r\nXX\r\n");
  EXPECT_TRUE(out.malformed);
  EXPECT_EQ(out.consumed, 5u);
}

TEST(Chunked, BoundsExtensionsAndTrailers) {
  std::string many;
  for (int i = 0; i < 17; ++i) many += "1;" + std::string(1000, 'e') + "\r\nx\r\n";
  EXPECT_TRUE(decode(many).malformed);
  EXPECT_FALSE(decode(many.substr(0, 16 * 1008)).malformed);
  EXPECT_TRUE(decode("0\r\nX: " + std::string(ChunkedDecoder::kTrailerBytesMax, 't')).malformed);
}

TEST(Chunked, DataWaitsForCredit) {
  ChunkedDecoder decoder;
  Decoded out;
  const std::string text = "5\r\nhello\r\n0\r\n\r\n";
  feed(decoder, text, out, 0);
  EXPECT_EQ(out.consumed, 3u);
  const auto step = decoder.next(std::as_bytes(std::span(text.data() + 3, text.size() - 3)), 2);
  EXPECT_EQ(step.event, ChunkedDecoder::Event::kData);
  EXPECT_EQ(step.data.size(), 2u);
  out.consumed = 5;
  feed(decoder, std::string_view(text).substr(5), out, 3);
  EXPECT_TRUE(out.ended);
  EXPECT_EQ(out.data, "llo");
}

}  // namespace
}  // namespace corehttpd::h1
