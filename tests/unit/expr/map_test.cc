#include <gtest/gtest.h>

#include "support/sites.h"

namespace corehttpd::expr {
namespace {

using test::TestSites;

TestSites mapping(std::string_view map, std::string_view answer = "\"$out\"") {
  return TestSites(
      fmt::format("http {{ {} server {{ location / {{ answer {}; }} }} }}", map, answer));
}

TEST(Map, ExactKeysIgnoreCase) {
  auto sites = mapping("map $arg_x $out { One 1; two 2; default other; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/?x=one"), "200 1");
  EXPECT_EQ(sites.get("/?x=ONE"), "200 1");
  EXPECT_EQ(sites.get("/?x=TWO"), "200 2");
  EXPECT_EQ(sites.get("/?x=three"), "200 other");
  EXPECT_EQ(sites.get("/"), "200 other");
}

TEST(Map, WithoutDefaultAnEmptyString) {
  auto sites = mapping("map $arg_x $out { '' empty; a b; }", "\"[$out]\"");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/?x=z"), "200 []");
  EXPECT_EQ(sites.get("/"), "200 [empty]");
}

TEST(Map, RegexesInOrderAfterExactKeys) {
  auto sites =
      mapping(R"(map $uri $out { ~^/b first; ~*^/B second; /b exact; ~^/(?<w>c+)(.) "$w+$2"; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/b"), "200 exact");
  EXPECT_EQ(sites.get("/bb"), "200 first");
  EXPECT_EQ(sites.get("/Bb"), "200 second");
  EXPECT_EQ(sites.get("/cccd"), "200 ccc+d");
}

TEST(Map, ValuesAndSourcesMayHoldVariables) {
  auto sites = mapping("map $host:$arg_x $out { h:1 \"$uri!\"; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/p?x=1"), "200 /p!");
}

TEST(Map, BackslashTakesSpecialMeaningAway) {
  auto sites = mapping(R"(map $arg_x $out { \default word; default none; \~a tilde; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/?x=default"), "200 word");
  EXPECT_EQ(sites.get("/?x=~a"), "200 tilde");
  EXPECT_EQ(sites.get("/?x=y"), "200 none");
}

TEST(Map, Hostnames) {
  auto sites =
      mapping(R"(map $http_host $out { hostnames; default 0; example.com 1; *.example.com 1s;
      example.org 2; *.example.org 2s; .example.net 3; wap.* 4; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.host("example.com"), "200 1");
  EXPECT_EQ(sites.host("a.b.example.com"), "200 1s");
  EXPECT_EQ(sites.host("EXAMPLE.ORG"), "200 2");
  EXPECT_EQ(sites.host("example.net."), "200 3");
  EXPECT_EQ(sites.host("x.example.net"), "200 3");
  EXPECT_EQ(sites.host("wap.anything.uk"), "200 4");
  EXPECT_EQ(sites.host("other"), "200 0");
}

TEST(Map, EvaluatedOnceUnlessVolatile) {
  const char* const text =
      "location / {{ set $x 1; set $first $out; set $x 2; answer \"$first$out\"; }}";
  const std::string server = fmt::format(fmt::runtime(text));
  TestSites cached("http { map $x $out { 1 a; 2 b; } server { " + server + " } }");
  ASSERT_TRUE(cached.compiled) << cached.compiled.text();
  EXPECT_EQ(cached.get("/"), "200 aa");
  TestSites fresh("http { map $x $out { volatile; 1 a; 2 b; } server { " + server + " } }");
  ASSERT_TRUE(fresh.compiled) << fresh.compiled.text();
  EXPECT_EQ(fresh.get("/"), "200 ab");
}

TEST(Map, ACycleEnds) {
  auto sites = mapping("map $b $a { default \"a$b\"; } map $a $b { default \"b$a\"; } ", "\"$a\"");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/").substr(0, 6), "200 ab");
}

TEST(Map, Errors) {
  EXPECT_TRUE(
      mapping("map $uri out { a b; }", "x").compiled.error("invalid variable name \"out\""));
  EXPECT_TRUE(
      mapping("map $uri $host { a b; }", "x").compiled.error("the duplicate \"host\" variable"));
  EXPECT_TRUE(mapping("map $uri $out { a b; A c; }").compiled.error("conflicting parameter \"A\""));
  EXPECT_TRUE(mapping("map $uri $out { default b; default c; }")
                  .compiled.error("duplicate default map parameter"));
  EXPECT_TRUE(
      mapping("map $uri $out { a b c; }").compiled.error("invalid number of the map parameters"));
  EXPECT_TRUE(mapping("map $uri $out { hostnames; a.*.b c; }")
                  .compiled.error("invalid hostname or wildcard"));
  EXPECT_TRUE(
      mapping("map $uri $out { a $nosuch; }").compiled.error("unknown \"nosuch\" variable"));
}

TEST(Map, MayDefineAFieldLikeName) {
  auto sites = mapping("map $uri $http_special { default mine; }", "$http_special");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/", {{"Host", "h"}, {"Special", "theirs"}}), "200 mine");
}

}  // namespace
}  // namespace corehttpd::expr
