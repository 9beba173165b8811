#include "corehttpd/expr/program.h"

#include <gtest/gtest.h>

#include "support/sites.h"

namespace corehttpd::expr {
namespace {

using test::TestRequest;
using test::TestSites;

TestSites answering(std::string_view program) {
  return TestSites::server(fmt::format("location / {{ answer {}; }}", program));
}

TEST(Program, JoinsLiteralsAndVariables) {
  auto sites = answering("\"a-$uri-b${args}c$$\"");
  EXPECT_TRUE(sites.compiled.error("invalid variable name"));
  sites = answering("\"a-$uri-b${args}c\"");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/x?y=1"), "200 a-/x-by=1c");
  EXPECT_EQ(sites.get("/x"), "200 a-/x-bc");
}

TEST(Program, NameEndsAtTheFirstOtherCharacter) {
  auto sites = answering("\"$uri.$is_args.$host/\"");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/x?y"), "200 /x.?.h/");
}

TEST(Program, ErrorsAreNginxs) {
  EXPECT_TRUE(answering("\"$\"").compiled.error("invalid variable name"));
  EXPECT_TRUE(answering("\"a$-b\"").compiled.error("invalid variable name"));
  EXPECT_TRUE(answering("\"${}\"").compiled.error("invalid variable name"));
  EXPECT_TRUE(
      answering("\"${uri\"").compiled.error("the closing bracket in \"uri\" variable is missing"));
  EXPECT_TRUE(answering("$nosuch").compiled.error("unknown \"nosuch\" variable"));
  EXPECT_TRUE(answering("$nosuch").compiled.diagnostics.all()[0].line == 1);
}

TEST(Program, CapturesAreOneDigit) {
  auto sites = TestSites::server("location ~ ^/(a)(b)? { answer \"$1|$2|$3|$12\"; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/ab"), "200 a|b||a2");
  EXPECT_EQ(sites.get("/a"), "200 a|||a2");
}

TEST(Program, ManyPartsStillOneString) {
  std::string program = "\"";
  std::string expected = "200 ";
  for (int i = 0; i < 40; ++i) {
    program += "$arg_x,";
    expected += "v,";
  }
  auto sites = answering(program + "\"");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/?x=v"), expected);
}

TEST(Program, LiteralAndSingleVariableAreNotCopied) {
  auto sites = answering("$uri");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  TestRequest request(*sites.services, "GET", "/path");
  request.run();
  const auto& program = request.exchange().settings<test::probe::Settings>().answer;
  EXPECT_EQ(program.evaluate(request.exchange()).data(), request.exchange().uri().data());
  EXPECT_FALSE(program.is_literal());

  auto literal = answering("plain");
  ASSERT_TRUE(literal.compiled) << literal.compiled.text();
  TestRequest second(*literal.services, "GET", "/path");
  second.run();
  const auto& text = second.exchange().settings<test::probe::Settings>().answer;
  EXPECT_TRUE(text.is_literal());
  EXPECT_EQ(text.evaluate(second.exchange()).data(), text.source().data());
}

TEST(Program, AMapMayFollowItsUse) {
  TestSites sites(R"(http { server { location / { answer $later; } }
                            map $uri $later { /a one; default none; } })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/a"), "200 one");
  EXPECT_EQ(sites.get("/b"), "200 none");
}

TEST(Regex, ErrorsQuoteThePattern) {
  const auto sites = TestSites::server("location ~ \"^/(a\" { answer x; }");
  EXPECT_TRUE(
      sites.compiled.error("pcre2_compile() failed: missing closing parenthesis in \"^/(a\""))
      << sites.compiled.text();
}

TEST(Regex, NamedGroupsAreVariables) {
  auto sites = TestSites::server(
      "location ~ ^/(?<user>[a-z]+)(?:/(?<rest>.*))?$ { answer \"$user:$rest\"; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/ann/x/y"), "200 ann:x/y");
  EXPECT_EQ(sites.get("/ann"), "200 ann:");
}

TEST(Regex, NamedGroupCannotTakeABuiltInName) {
  const auto sites = TestSites::server("location ~ ^/(?<uri>.*)$ { answer x; }");
  EXPECT_TRUE(sites.compiled.error("the duplicate \"uri\" variable"));
}

TEST(Regex, RunawayPatternsCountAsNoMatch) {
  auto sites =
      TestSites::server("location ~ ^/(a+)+$ { answer regex; } location / { answer prefix; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  static const std::string target = "/" + std::string(60, 'a') + "!";
  EXPECT_EQ(sites.get(target), "200 prefix");
  EXPECT_EQ(sites.get("/aaaa"), "200 regex");
}

}  // namespace
}  // namespace corehttpd::expr
