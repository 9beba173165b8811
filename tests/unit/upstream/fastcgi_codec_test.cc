#include "upstream/fastcgi_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace corehttpd::upstream::fastcgi {
namespace {

std::string text_of(const Segment& segment) { return std::string(segment.view()); }

std::string record(int type, std::string_view content, int padding = 0, int id = 1,
                   int version = 1) {
  std::string out;
  for (int byte : {version, type, id >> 8, id & 0xff, static_cast<int>(content.size() >> 8),
                   static_cast<int>(content.size() & 0xff), padding, 0}) {
    out.push_back(static_cast<char>(byte));
  }
  return out.append(content).append(static_cast<std::size_t>(padding), 'P');
}
std::string end_request(int padding = 0, int protocol_status = 0, char app_status = 0) {
  std::string content(8, '\0');
  content[3] = app_status;
  content[4] = static_cast<char>(protocol_status);
  return record(3, content, padding);
}

// Events as text: "out:abc", "err:x|" (| ends a message), "outend", "end", "bad:…".
std::vector<std::string> decode(Codec& codec, std::string_view bytes, std::size_t step = SIZE_MAX) {
  std::vector<std::string> events;
  while (!bytes.empty()) {
    const std::string_view now = bytes.substr(0, step);
    bytes.remove_prefix(now.size());
    std::span<const std::byte> input(reinterpret_cast<const std::byte*>(now.data()), now.size());
    for (;;) {
      const OriginEvent event = codec.next(input);
      const std::string content(reinterpret_cast<const char*>(event.bytes.data()),
                                event.bytes.size());
      using Kind = OriginEvent::Kind;
      if (event.kind == Kind::kNeedMore) break;
      if (event.kind == Kind::kOutput) events.push_back("out:" + content);
      if (event.kind == Kind::kOutputEnd) events.push_back("outend");
      if (event.kind == Kind::kDiagnostics) {
        events.push_back("err:" + content + (event.last ? "|" : ""));
      }
      if (event.kind == Kind::kEnd) events.push_back("end");
      if (event.kind == Kind::kMalformed) {
        events.push_back("bad:" + codec.describe_problem());
        return events;
      }
    }
  }
  return events;
}
using Events = std::vector<std::string>;

TEST(FastcgiEncode, BeginParamsAndEnd) {
  const Param params[] = {{"A", "bc"}, {"D", ""}};
  const std::string expected = record(1, std::string("\0\1\0\0\0\0\0\0", 8)) +
                               record(4, std::string("\1\2Abc\1\0D", 8)) + record(4, "");
  EXPECT_EQ(text_of(encode_head(params, false)), expected);
}

TEST(FastcgiEncode, KeepConnectionIsAFlag) {
  EXPECT_EQ(text_of(encode_head({}, true)),
            record(1, std::string("\0\1\1\0\0\0\0\0", 8)) + record(4, ""));
}

TEST(FastcgiEncode, LengthsFrom128OnTakeFourBytes) {
  const std::string name(127, 'n'), value(128, 'v');
  const Param params[] = {{name, value}};
  EXPECT_EQ(params_bytes(params), 1u + 4u + 127u + 128u);
  const std::string expected =
      record(4, std::string("\x7f\x80\0\0\x80", 5) + name + value) + record(4, "");
  EXPECT_EQ(text_of(encode_head(params, false)).substr(16), expected);
}

TEST(FastcgiEncode, ParamsAbove64KilobytesTakeSeveralRecords) {
  const std::string value(150'000, 'x');
  const Param params[] = {{"BIG", value}, {"LAST", "1"}};
  const std::string out = text_of(encode_head(params, false));
  // Joins the content of the PARAMS records, which must all be within the limit.
  std::string stream;
  std::size_t at = 16, records = 0;
  for (;;) {
    ASSERT_LE(at + 8, out.size());
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(out[at + i]); };
    ASSERT_EQ(byte(1), 4);
    const std::size_t length = byte(4) << 8 | byte(5);
    ASSERT_EQ(byte(6), 0);
    at += 8;
    if (length == 0) break;
    ASSERT_LE(length, kContentMax);
    stream += out.substr(at, length);
    at += length;
    ++records;
  }
  EXPECT_EQ(at, out.size());
  EXPECT_EQ(records, 3u);  // 150,017 bytes in pieces of 65,528.
  EXPECT_EQ(stream, std::string("\3\x80\x02\x49\xf0"
                                "BIG",
                                8) +
                        value + "\4\1LAST1");
}

TEST(FastcgiEncode, StdinFrames) {
  Codec codec;
  std::byte out[OriginCodec::kFrameBytesMax];
  ASSERT_EQ(codec.begin_frame(out, 65528), 8u);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(out), 8), std::string("\1\5\0\1\xff\xf8\0\0", 8));
  ASSERT_EQ(codec.end_body(out), 8u);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(out), 8), std::string("\1\5\0\1\0\0\0\0", 8));
  ASSERT_EQ(codec.abort(out), 8u);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(out), 8), std::string("\1\2\0\1\0\0\0\0", 8));
}

TEST(FastcgiDecode, OutputDiagnosticsAndEnd) {
  Codec codec;
  const std::string bytes = record(7, "oops", 4) + record(6, "hello", 3) + end_request(0, 0, 7);
  EXPECT_EQ(decode(codec, bytes), (Events{"err:oops|", "out:hello", "end"}));
  EXPECT_EQ(codec.application_status(), 7u);
  EXPECT_TRUE(codec.reusable());
}

TEST(FastcgiDecode, ByteByByteYieldsTheSameStream) {
  Codec codec;
  const std::string bytes =
      record(7, "e1", 1) + record(6, "ab", 7) + record(6, "") + end_request(5);
  EXPECT_EQ(decode(codec, bytes, 1),
            (Events{"err:e", "err:1|", "out:a", "out:b", "outend", "end"}));
  EXPECT_TRUE(codec.reusable());
}

TEST(FastcgiDecode, EndBeforeItsPaddingIsNotYetClean) {
  Codec codec;
  const std::string bytes = end_request(5);
  EXPECT_EQ(decode(codec, bytes.substr(0, 18)), (Events{"end"}));
  EXPECT_FALSE(codec.reusable());
}

// Case 12: whatever comes after the end belongs to nobody.
TEST(FastcgiDecode, NothingMayFollowTheEnd) {
  Codec codec;
  EXPECT_EQ(decode(codec, end_request() + record(7, "late")),
            (Events{"end", "bad:data after FastCGI END_REQUEST"}));
  EXPECT_FALSE(codec.reusable());
}

TEST(FastcgiDecode, OutputAfterItsEndIsRefused) {
  Codec codec;
  EXPECT_EQ(decode(codec, record(6, "") + record(6, "x")),
            (Events{"outend", "bad:FastCGI stdout after it was closed"}));
}

TEST(FastcgiDecode, StderrMayFollowTheEndOfOutput) {
  Codec codec;
  EXPECT_EQ(decode(codec, record(6, "") + record(7, "x") + end_request()),
            (Events{"outend", "err:x|", "end"}));
}

TEST(FastcgiDecode, WhatIsNoRecordOfOurRequestIsRefused) {
  const auto refusal = [](const std::string& bytes) {
    Codec codec;
    return decode(codec, bytes).back();
  };
  EXPECT_EQ(refusal(record(6, "x", 0, 1, 2)), "bad:unsupported FastCGI protocol version: 2");
  EXPECT_EQ(refusal(record(6, "x", 0, 2)), "bad:unexpected FastCGI request id: 2");
  EXPECT_EQ(refusal(record(6, "x", 0, 257)), "bad:unexpected FastCGI request id: 257");
  EXPECT_EQ(refusal(record(11, "12345678", 0, 0)), "bad:unexpected FastCGI record: 11");
  EXPECT_EQ(refusal(record(1, "12345678")), "bad:unexpected FastCGI record: 1");
  EXPECT_EQ(refusal(record(3, "1234")), "bad:FastCGI END_REQUEST of 4 bytes");
  EXPECT_EQ(refusal(end_request(0, 2)),
            "bad:FastCGI END_REQUEST that refuses the request: OVERLOADED");
  EXPECT_EQ(refusal("HTTP/1.1 200 OK\r\n\r\n"), "bad:unsupported FastCGI protocol version: 72");
}

}  // namespace
}  // namespace corehttpd::upstream::fastcgi
