#include "corehttpd/http/target.h"

#include <gtest/gtest.h>

#include <string>

namespace corehttpd::http {
namespace {

constexpr std::string_view kRefused = "<400>";

std::string normalized(std::string_view raw, bool merge_slashes = true) {
  Arena arena;
  const auto result = normalize_path(arena, raw, merge_slashes);
  if (result) return std::string(*result);
  EXPECT_EQ(result.error().code, Code::kMalformed);
  EXPECT_EQ(result.error().party, Party::kClient);
  EXPECT_EQ(result.error().detail, 400);
  return std::string(kRefused);
}

std::string host(std::string_view text) {
  Arena arena;
  const auto result = parse_host(arena, text);
  if (result) return std::string(*result);
  EXPECT_EQ(result.error().detail, 400);
  return std::string(kRefused);
}

struct Case {
  std::string_view input, expected;
};

TEST(NormalizePath, ResolvesAsNginxDoes) {
  constexpr Case kCases[] = {
      {"/", "/"},
      {"/a/b.html", "/a/b.html"},
      {"/a%20b", "/a b"},
      {"/%41%c3%a4", "/A\xc3\xa4"},
      {"/a+b", "/a+b"},
      {"//", "/"},
      {"///a//b///", "/a/b/"},
      {"/.", "/"},
      {"/./", "/"},
      {"/./a", "/a"},
      {"/a/.", "/a/"},
      {"/a/./b", "/a/b"},
      {"/a/..", "/"},
      {"/a/../", "/"},
      {"/a/b/..", "/a/"},
      {"/a/b/../c", "/a/c"},
      {"/a/b/../../c", "/c"},
      {"/a//../b", "/b"},
      {"/...", "/..."},
      {"/.a/..b", "/.a/..b"},
      {"/a.", "/a."},
      {"/a..", "/a.."},
      {"/a/.../b", "/a/.../b"},
      {"/a%2f..%2fb", "/b"},
      {"/a/%2e%2e/b", "/b"},
      {"/a/.%2E/b", "/b"},
      {"/%2e/a", "/a"},
      {"/a%2Fb", "/a/b"},
      {"/a%2f%2fb", "/a/b"},
      {"/a%3fb%23c%25d", "/a?b#c%d"},
      {"/%2525", "/%25"},
      {"/%0d%0ax:/wp-admin", "/\r\nx:/wp-admin"},
      {"/a\\..\\b", "/a\\..\\b"},
      {"/index.php/%0Ainfo.php", "/index.php/\ninfo.php"},
  };
  for (const Case& c : kCases) EXPECT_EQ(normalized(c.input), c.expected) << c.input;
}

TEST(NormalizePath, KeepsSlashesWhenToldTo) {
  constexpr Case kCases[] = {
      {"//", "//"},      {"//a//b///", "//a//b///"}, {"//..", "/"},          {"/a//../b", "/a/b"},
      {"/a//.", "/a//"}, {"/a/..//b", "//b"},        {"/a%2f%2fb", "/a//b"},
  };
  for (const Case& c : kCases) EXPECT_EQ(normalized(c.input, false), c.expected) << c.input;
}

TEST(NormalizePath, Refuses) {
  for (std::string_view raw : {"",      "a",        "*",          "/..",
                               "/../a", "/a/../..", "/a/../../b", "/%2e%2e/",
                               "//..",  "/./..",    "/%",         "/%4",
                               "/%4g",  "/%g4",     "/a%00",      "/index.php%00.txt",
                               "/a\tb", "/a b",     "/a\x7f",     "/a\r\n",
                               "/\x01"}) {
    EXPECT_EQ(normalized(raw), kRefused) << raw;
  }
  EXPECT_EQ(normalized(std::string_view("/a\0b", 4)), kRefused);
}

TEST(NormalizePath, LeavesPlainPathsWhereTheyAre) {
  Arena arena;
  constexpr std::string_view kPath = "/assets/app-1.2.css";
  EXPECT_EQ(normalize_path(arena, kPath, true)->data(), kPath.data());
}

TEST(ParseTarget, OriginForm) {
  Arena arena;
  const auto target = parse_target(arena, "/a%20b?x=1&y=?z");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->uri, "/a%20b?x=1&y=?z");
  EXPECT_EQ(target->raw_path, "/a%20b");
  EXPECT_EQ(target->query, "x=1&y=?z");
  EXPECT_TRUE(target->has_query);
  EXPECT_EQ(target->authority, "");
  EXPECT_FALSE(parse_target(arena, "/a")->has_query);
  EXPECT_TRUE(parse_target(arena, "/a?")->has_query);
}

TEST(ParseTarget, CutsFragments) {
  Arena arena;
  EXPECT_EQ(parse_target(arena, "/a#b?c")->raw_path, "/a");
  EXPECT_FALSE(parse_target(arena, "/a#b?c")->has_query);
  EXPECT_EQ(parse_target(arena, "/a?b#c")->query, "b");
  EXPECT_EQ(parse_target(arena, "/a?b#c")->uri, "/a?b#c");
}

TEST(ParseTarget, AbsoluteForm) {
  Arena arena;
  auto target = parse_target(arena, "http://Example.org:8080/a/b?c");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->scheme, "http");
  EXPECT_EQ(target->authority, "Example.org:8080");
  EXPECT_EQ(target->uri, "/a/b?c");
  EXPECT_EQ(target->raw_path, "/a/b");
  EXPECT_EQ(target->query, "c");
  target = parse_target(arena, "HTTPS://example.org");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->uri, "/");
  EXPECT_EQ(target->raw_path, "/");
  target = parse_target(arena, "http://example.org?x");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->uri, "/?x");
  EXPECT_EQ(target->raw_path, "/");
  EXPECT_EQ(target->query, "x");
}

TEST(ParseTarget, AsteriskFormIsForTheCallerToJudge) {
  Arena arena;
  EXPECT_EQ(parse_target(arena, "*")->raw_path, "*");
}

TEST(ParseTarget, Refuses) {
  Arena arena;
  for (std::string_view text :
       {"", "a", "?x", "example.org:443", "http:/a", "http:///a", "://a/", "1http://a/",
        "ht_tp://a/", "/a b", "/a\tb", "**", "http://", "/\x7f"}) {
    EXPECT_FALSE(parse_target(arena, text)) << text;
  }
}

TEST(ParseHost, Accepts) {
  constexpr Case kCases[] = {
      {"example.org", "example.org"},
      {"EXAMPLE.Org", "example.org"},
      {"example.org.", "example.org"},
      {"example.org:8080", "example.org"},
      {"example.org.:80", "example.org"},
      {"example.org:", "example.org"},
      {"127.0.0.1:1", "127.0.0.1"},
      {"[::1]", "[::1]"},
      {"[2001:DB8::1]:443", "[2001:db8::1]"},
      {"[::1]:", "[::1]"},
      {"_dmarc.x", "_dmarc.x"},
      {"a%41b", "a%41b"},
      {"localhost:65535", "localhost"},
      {"xn--bcher-kva.example", "xn--bcher-kva.example"},
  };
  for (const Case& c : kCases) EXPECT_EQ(host(c.input), c.expected) << c.input;
}

TEST(ParseHost, Refuses) {
  for (std::string_view text : {"",
                                ".",
                                ":80",
                                "a..b",
                                "a/b",
                                "a b",
                                "a@b",
                                "user:pw@b",
                                "a:b",
                                "a:80x",
                                "a:-1",
                                "a:65536",
                                "a:99999999999999999999",
                                "a:80:90",
                                "[::1",
                                "[::1]x",
                                "[1.2.3.4]",
                                "[]",
                                "[fe80::1%25eth0]",
                                "::1",
                                "a%4",
                                "a%zz",
                                "a#b",
                                "a?b",
                                "a\\b",
                                "b\xc3\xbc",
                                "a\"b",
                                "a\tb",
                                "a\x7f",
                                "[v1.x]"}) {
    EXPECT_EQ(host(text), kRefused) << text;
  }
  EXPECT_EQ(host(std::string_view("a\0b", 3)), kRefused);
  EXPECT_EQ(host(std::string_view("[::1\0?]", 7)), kRefused);
}

TEST(SplitArgs, AtTheFirstQuestionMark) {
  EXPECT_EQ(split_args("/a?b?c").path, "/a");
  EXPECT_EQ(split_args("/a?b?c").args, "b?c");
  EXPECT_EQ(split_args("/a").args, "");
}

TEST(Escape, AsNginxEscapes) {
  Arena arena;
  EXPECT_EQ(escape_uri(arena, "/a/b-_.~!$&'()*+,;=:@"), "/a/b-_.~!$&'()*+,;=:@");
  EXPECT_EQ(escape_uri(arena, "/a b?c#d%e\r\n\xc3\xa4\x7f"), "/a%20b%3Fc%23d%25e%0D%0A%C3%A4%7F");
  EXPECT_EQ(escape_args(arena, "a&b+c;d e=f?"), "a%26b%2Bc%3Bd%20e=f%3F");
  EXPECT_EQ(escape_location(arena, "http://x/?a=%20#f\r\nSet-Cookie: a"),
            "http://x/?a=%20#f%0D%0ASet-Cookie:%20a");
  constexpr std::string_view kPlain = "/plain";
  EXPECT_EQ(escape_uri(arena, kPlain).data(), kPlain.data());
}

}  // namespace
}  // namespace corehttpd::http
