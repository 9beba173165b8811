#include "upstream/response_head.h"

#include <gtest/gtest.h>

#include <string>

namespace corehttpd::upstream {
namespace {

using State = ResponseHeadReader::State;

struct Reading {
  Arena arena;
  ResponseHeadReader reader;
  std::string rest;
  State state = State::kReading;

  explicit Reading(std::string_view text, std::size_t step = SIZE_MAX, std::size_t limit = 4096)
      : reader(limit) {
    while (!text.empty() && state == State::kReading) {
      const std::string_view now = text.substr(0, step);
      std::span<const std::byte> input(reinterpret_cast<const std::byte*>(now.data()), now.size());
      state = reader.read(arena, input);
      text.remove_prefix(now.size() - input.size());
    }
    rest = text;
  }
  const OriginHead& head() { return reader.head(); }
};

TEST(ResponseHead, CrLfAndLfBothEndLines) {
  for (const char* text : {"Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\nbody",
                           "Status: 404 Not Found\nContent-Type: text/html\n\nbody",
                           "Status: 404 Not Found\r\nContent-Type:text/html \n\r\nbody"}) {
    for (std::size_t step : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
      Reading r(text, step);
      ASSERT_EQ(r.state, State::kComplete) << text;
      EXPECT_EQ(r.head().status, 404);
      EXPECT_EQ(r.head().reason, "Not Found");
      ASSERT_EQ(r.head().fields.size(), 2u);
      EXPECT_EQ(r.head().fields.begin()->value, "404 Not Found");
      EXPECT_EQ(r.head().fields.value(http::FieldName::kContentType), "text/html");
      EXPECT_EQ(r.rest, "body");
    }
  }
}

TEST(ResponseHead, StatusIs200Or302WithALocation) {
  EXPECT_EQ(Reading("Content-Type: a/b\r\n\r\n").head().status, 200);
  EXPECT_EQ(Reading("Location: /x\r\n\r\n").head().status, 302);
  EXPECT_EQ(Reading("Location: /x\r\nStatus: 201\r\n\r\n").head().status, 201);
  EXPECT_EQ(Reading("\r\n").head().status, 200);
}

TEST(ResponseHead, ContentLengthIsParsedAndMayNotBeRepeated) {
  EXPECT_EQ(Reading("Content-Length: 12\r\n\r\n").head().content_length, 12u);
  for (const char* text :
       {"Content-Length: 12\r\nContent-Length: 12\r\n\r\n", "Content-Length: -1\r\n\r\n",
        "Content-Length: 1 2\r\n\r\n", "Content-Length: 99999999999999999999999\r\n\r\n"}) {
    EXPECT_EQ(Reading(text).state, State::kInvalid) << text;
  }
}

TEST(ResponseHead, SaysWhatWasWrong) {
  struct {
    const char* text;
    const char* problem;
    const char* line;
  } const cases[] = {
      {"Warning in x.php\r\nA: b\r\n\r\n", "no colon", "Warning in x.php"},
      {"A: b\r\n folded\r\n\r\n", "a folded line", " folded"},
      {"A : b\r\n\r\n", "not a field name", "A : b"},
      {": b\r\n\r\n", "not a field name", ": b"},
      {"A: b\rc\r\n\r\n", "a control character in the value", "A: b\rc"},
      {"Status: abc\r\n\r\n", "not a status", "Status: abc"},
      {"Status: 99\r\n\r\n", "not a status", "Status: 99"},
      {"Status: 2000\r\n\r\n", "not a status", "Status: 2000"},
      {"Status: 200\r\nStatus: 200\r\n\r\n", "Status twice", "Status: 200"},
  };
  for (const auto& one : cases) {
    Reading r(one.text);
    EXPECT_EQ(r.state, State::kInvalid) << one.text;
    EXPECT_EQ(r.reader.problem(), one.problem) << one.text;
    EXPECT_EQ(r.reader.offending_line(), one.line) << one.text;
  }
}

TEST(ResponseHead, LimitCountsTheHeadAlone) {
  const std::string head = "A: " + std::string(91, 'x') + "\r\n\r\n";  // 98 bytes.
  EXPECT_EQ(Reading(head + std::string(500, 'b'), SIZE_MAX, 98).state, State::kComplete);
  EXPECT_EQ(Reading(head, SIZE_MAX, 97).state, State::kTooBig);
  EXPECT_EQ(Reading(std::string(200, 'x'), 10, 97).state, State::kTooBig);
}

// Case 16: forty cookies of half a kilobyte fit into the default of 32k.
TEST(ResponseHead, ManyLargeCookies) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "Set-Cookie: c" + std::to_string(i) + "=" + std::string(500, 'v') + "\r\n";
  }
  Reading r(text + "\r\n", 8192, 32 * 1024);
  ASSERT_EQ(r.state, State::kComplete);
  EXPECT_EQ(r.head().fields.size(), 40u);
}

TEST(ResponseHead, AnotherHeadMayFollowAnInformationalOne) {
  Reading r("Status: 103\r\nLink: </a.css>\r\n\r\nStatus: 200\r\nA: b\r\n\r\nx");
  ASSERT_EQ(r.state, State::kComplete);
  EXPECT_EQ(r.head().status, 103);
  r.reader.restart();
  std::span<const std::byte> input(reinterpret_cast<const std::byte*>(r.rest.data()),
                                   r.rest.size());
  ASSERT_EQ(r.reader.read(r.arena, input), State::kComplete);
  EXPECT_EQ(r.head().status, 200);
  EXPECT_EQ(r.head().fields.size(), 2u);  // None of the first.
  EXPECT_EQ(input.size(), 1u);
}

}  // namespace
}  // namespace corehttpd::upstream
