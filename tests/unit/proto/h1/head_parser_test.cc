// The strict reading of request heads (cases 1, 2 and 4 of the field collection are among them).
#include "proto/h1/head_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace corehttpd::h1 {
namespace {

struct Head {
  Head() : limits(HeadLimits::from(settings)) {}
  ParsedHead parse(std::string_view text) {
    request = http::RequestHead();
    return parse_head(arena.copy(text), limits, arena, request);
  }
  // The status for a request with Host and these further field lines.
  std::uint16_t status_with(std::string_view lines, std::string_view version = "HTTP/1.1") {
    return parse("POST / " + std::string(version) + "\r\nHost: a\r\n" + std::string(lines) + "\r\n")
        .status;
  }
  std::uint16_t status_of_line(std::string_view line) {
    return parse(std::string(line) + "\r\nHost: a\r\n\r\n").status;
  }
  http::CoreSettings settings;
  HeadLimits limits;
  Arena arena;
  http::RequestHead request;
};

TEST(HeadParser, ReadsRequestLineAndFields) {
  Head head;
  const auto parsed = head.parse(
      "GET /a/b?x=1 HTTP/1.1\r\nHost: example.org:8080\r\nAccept:  text/html "
      "\t\r\nX-Empty:\r\n\r\n");
  EXPECT_EQ(parsed.status, 0);
  EXPECT_EQ(head.request.method, http::Method::kGet);
  EXPECT_EQ(head.request.raw_path, "/a/b");
  EXPECT_EQ(head.request.query, "x=1");
  EXPECT_TRUE(head.request.has_query);
  EXPECT_EQ(head.request.authority, "example.org:8080");
  EXPECT_EQ(head.request.request_line, "GET /a/b?x=1 HTTP/1.1");
  ASSERT_EQ(head.request.fields.size(), 3u);
  EXPECT_EQ(head.request.fields.value(http::FieldName::kAccept), "text/html");
  ASSERT_NE(head.request.fields.find("x-empty"), nullptr);
  EXPECT_EQ(head.request.fields.find("x-empty")->value, "");
  EXPECT_TRUE(parsed.keep_alive);
  EXPECT_EQ(parsed.framing, BodyFraming::kNone);
  EXPECT_EQ(head.request.head_bytes, 81u);
}

TEST(HeadParser, AcceptsLfAlone) {
  Head head;
  EXPECT_EQ(head.parse("GET / HTTP/1.1\nHost: a\n\n").status, 0);
  EXPECT_EQ(head.request.authority, "a");
}

TEST(HeadParser, AbsoluteFormOverridesHost) {
  Head head;
  EXPECT_EQ(head.parse("GET http://b.example/x HTTP/1.1\r\nHost: a\r\n\r\n").status, 0);
  EXPECT_EQ(head.request.authority, "b.example");
  EXPECT_EQ(head.request.raw_path, "/x");
}

TEST(HeadParser, RequestLines) {
  Head head;
  EXPECT_EQ(head.status_of_line("M-SEARCH / HTTP/1.1"), 0);
  EXPECT_EQ(head.status_of_line("GET / HTTP/1.9"), 0);
  EXPECT_EQ(head.request.version, http::Version::k11);
  EXPECT_EQ(head.status_of_line("GET /\xc3\xa9 HTTP/1.1"), 0);
  EXPECT_EQ(head.status_of_line("GET / HTTP/2.0"), 505);
  EXPECT_EQ(head.status_of_line("GET / HTTP/10.0"), 400);
  for (const char* line : {"GET /",
                           "GET  / HTTP/1.1",
                           "GET /  HTTP/1.1",
                           "GET / HTTP/1.1 ",
                           " GET / HTTP/1.1",
                           "GET / HTTP/1",
                           "GET / HTTP/1.",
                           "GET / HTTP/.1",
                           "GET / HTTP/0.9",
                           "GET / http/1.1",
                           "GET / HTTPS/1.1",
                           "GET / HTTP/1.1x",
                           "GET\t/ HTTP/1.1",
                           "GET /a b HTTP/1.1",
                           "GET /\x01 HTTP/1.1",
                           "GET /\x7f HTTP/1.1",
                           "G(T / HTTP/1.1",
                           "GET HTTP/1.1",
                           "GET  HTTP/1.1",
                           "GET / HTTP/1.1\rX",
                           "GET / HTTP/1111.1"}) {
    EXPECT_EQ(head.status_of_line(line), 400) << line;
  }
  EXPECT_EQ(head.status_of_line("CONNECT a:80 HTTP/1.1"), 405);
}

TEST(HeadParser, Hosts) {
  Head head;
  EXPECT_EQ(head.parse("GET / HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(head.parse("GET / HTTP/1.0\r\n\r\n").status, 0);
  EXPECT_EQ(head.parse("GET / HTTP/1.1\r\nHost:\r\n\r\n").status, 400);
  EXPECT_EQ(head.status_with("Host: a\r\n"), 400);
  EXPECT_EQ(head.status_with("hOST: b\r\n", "HTTP/1.0"), 400);
}

TEST(HeadParser, FieldLines) {
  Head head;
  for (const char* line :
       {" X: folded\r\n", "X: a\r\n folded\r\n", "\tX: a\r\n", "X : a\r\n",
        "Transfer-Encoding : chunked\r\n", "X\r\n", ": a\r\n", "X Y: a\r\n", "X\x01: a\r\n",
        "X\x7f: a\r\n", "X: a\rb\r\n", "X: a\x01\r\n", "X: a\x7f\r\n", "X: a\r\r\n"}) {
    EXPECT_EQ(head.status_with(line), 400) << line;
  }
  EXPECT_EQ(head.status_with(std::string_view("X: a\0b\r\n", 8)), 400);
  EXPECT_EQ(head.status_with(std::string_view("X\0: a\r\n", 7)), 400);
  EXPECT_EQ(head.status_with("X: a\tb \x80\xff\r\n"), 0);
  EXPECT_EQ(head.request.fields.find("x")->value, "a\tb \x80\xff");
}

TEST(HeadParser, InvalidNamesAreLeftOut) {
  Head head;
  auto parsed = head.parse(
      "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 1\r\nX-Forwarded-For: 2\r\nX.Y: 3\r\n\r\n");
  EXPECT_EQ(parsed.status, 0);
  EXPECT_EQ(parsed.ignored, 2u);
  EXPECT_EQ(parsed.first_ignored, "X_Forwarded_For");
  EXPECT_EQ(head.request.fields.size(), 2u);
  EXPECT_EQ(head.request.fields.find("X_Forwarded_For"), nullptr);

  head.limits.underscores_in_headers = true;
  EXPECT_EQ(head.status_with("X_Y: 1\r\n"), 0);
  EXPECT_NE(head.request.fields.find("x_y"), nullptr);

  head.limits.ignore_invalid_headers = false;
  EXPECT_EQ(head.status_with("X.Y: 1\r\n"), 0);
  EXPECT_NE(head.request.fields.find("x.y"), nullptr);
  EXPECT_EQ(head.status_with("X(Y: 1\r\n"), 400);
}

TEST(HeadParser, ContentLength) {
  Head head;
  EXPECT_EQ(head.status_with("Content-Length: 5\r\n"), 0);
  EXPECT_EQ(head.request.content_length, 5u);
  EXPECT_TRUE(head.request.body_expected);
  EXPECT_EQ(head.status_with("Content-Length: 0\r\n"), 0);
  EXPECT_FALSE(head.request.body_expected);
  EXPECT_EQ(head.status_with("Content-Length: 9223372036854775807\r\n"), 0);
  for (const char* line :
       {"Content-Length:\r\n", "Content-Length: -1\r\n", "Content-Length: +5\r\n",
        "Content-Length: 5x\r\n", "Content-Length: 0x5\r\n", "Content-Length: 5, 5\r\n",
        "Content-Length: 5, 6\r\n", "Content-Length: 5 5\r\n",
        "Content-Length: 9223372036854775808\r\n", "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 6\r\nX: y\r\ncontent-length: 5\r\n"}) {
    EXPECT_EQ(head.status_with(line), 400) << line;
  }
}

TEST(HeadParser, TransferEncoding) {
  Head head;
  EXPECT_EQ(head.status_with("tRANSFER-ENCODING: Chunked\r\n"), 0);
  EXPECT_TRUE(head.request.body_expected);
  EXPECT_FALSE(head.request.content_length.has_value());
  EXPECT_EQ(head.status_with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(head.status_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(head.status_with("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(head.status_with("Content-Length: 5\r\nTransfer-Encoding: identity\r\n"), 400);
  EXPECT_EQ(head.status_with("Transfer-Encoding: chunked\r\n", "HTTP/1.0"), 400);
  EXPECT_EQ(head.status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  for (const char* value : {"gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked",
                            "xchunked", "identity", "", "\"chunked\"", "chunked;q=1"}) {
    EXPECT_EQ(head.status_with("Transfer-Encoding: " + std::string(value) + "\r\n"), 501) << value;
  }
}

TEST(HeadParser, Persistence) {
  Head head;
  const auto keeps = [&head](std::string_view version, std::string_view lines) {
    return head
        .parse("GET / " + std::string(version) + "\r\nHost: a\r\n" + std::string(lines) + "\r\n")
        .keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: Upgrade, Close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
  EXPECT_TRUE(keeps("HTTP/1.1", "Connection: closed\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

TEST(HeadParser, ExpectContinueOnlyOnHttp11) {
  Head head;
  EXPECT_EQ(head.status_with("Content-Length: 1\r\nExpect: 100-Continue\r\n"), 0);
  EXPECT_TRUE(head.request.expects_continue);
  EXPECT_FALSE(head.request.unknown_expectation);
  EXPECT_EQ(head.status_with("Expect: 200-ok\r\n"), 0);
  EXPECT_TRUE(head.request.unknown_expectation);
  EXPECT_EQ(head.status_with("Content-Length: 1\r\nExpect: 100-continue\r\n", "HTTP/1.0"), 0);
  EXPECT_FALSE(head.request.expects_continue);
}

TEST(HeadParser, CountsFields) {
  Head head;
  std::string lines;
  for (std::size_t i = 0; i < 999; ++i) lines += "A: b\r\n";
  EXPECT_EQ(head.status_with(lines), 0);
  EXPECT_EQ(head.status_with(lines + "A: b\r\n"), 400);
}

TEST(HeadScanner, FindsTheEndAtAnySplit) {
  const std::string text =
      "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\nGET /next HTTP/1.1\r\n\r\n";
  const http::CoreSettings settings;
  const HeadLimits limits = HeadLimits::from(settings);
  const std::size_t end = text.find("GET /next");
  for (std::size_t first = 0; first <= text.size(); ++first) {
    HeadScanner scanner;
    const auto early = scanner.scan(std::string_view(text).substr(0, first), limits);
    ASSERT_EQ(early,
              first >= end ? HeadScanner::Verdict::kComplete : HeadScanner::Verdict::kIncomplete)
        << first;
    if (first < end) {
      ASSERT_EQ(scanner.scan(text, limits), HeadScanner::Verdict::kComplete) << first;
    }
    EXPECT_EQ(scanner.begin(), 4u);
    EXPECT_EQ(scanner.end(), end);
  }
}

TEST(HeadScanner, Limits) {
  const HeadLimits limits{100, 250, 1000, true, false};
  const auto status_of = [&limits](const std::string& text) {
    HeadScanner scanner;
    return scanner.scan(text, limits) == HeadScanner::Verdict::kRefused ? scanner.status() : 0;
  };
  EXPECT_EQ(status_of(std::string(100, 'x')), 0);
  EXPECT_EQ(status_of(std::string(101, 'x')), 414);
  EXPECT_EQ(status_of(std::string(100, 'x') + "\r\n" + std::string(100, 'y') + "\r\n"), 0);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + std::string(101, 'y')), kFieldTooLarge);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + std::string(90, 'y') + "\r\n" + std::string(90, 'y') +
                      "\r\n" + std::string(90, 'y') + "\r\n"),
            kFieldTooLarge);
  EXPECT_EQ(status_of(std::string(kLeadingBytesMax, '\n')), 0);
  EXPECT_EQ(status_of(std::string(kLeadingBytesMax + 1, '\n')), 400);
  EXPECT_EQ(status_of("\rG"), 400);
  EXPECT_EQ(status_of("\r"), 0);
}

TEST(HeadScanner, JudgesBeginnings) {
  EXPECT_EQ(judge_beginning("GE"), 0);
  EXPECT_EQ(judge_beginning("GET /x HTTP/1.1\r\nHo"), 0);
  EXPECT_EQ(judge_beginning("GET /\r\n"), 400);         // HTTP/0.9.
  EXPECT_EQ(judge_beginning("\x16\x03\x01\x02"), 400);  // TLS.
  EXPECT_EQ(judge_beginning("GET\x01"), 400);
  EXPECT_EQ(judge_beginning("xxxxxxxxxxxxxxxx"), 400);  // No method is in lower case.
  EXPECT_EQ(judge_beginning("PRI * HTTP/2.0\r\n"), 505);
}

}  // namespace
}  // namespace corehttpd::h1
