// The rewrite module: nginx's documented examples and the order of things.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "support/sites.h"

namespace corehttpd::handlers {
namespace {

using test::TestRequest;
using test::TestSites;

class Rewrite : public ::testing::Test {
 protected:
  // The answer of one server with these directives.
  std::string get(std::string_view directives, std::string_view target,
                  TestRequest::Fields fields = {{"Host", "h"}}) {
    auto sites = TestSites::server(directives);
    EXPECT_TRUE(sites.compiled) << sites.compiled.text();
    return sites.compiled ? sites.get(target, fields) : "not compiled";
  }
  void error(std::string_view directives, std::string_view message) {
    const auto sites = TestSites::server(directives);
    EXPECT_TRUE(sites.compiled.error(message)) << sites.compiled.text();
  }
};

TEST_F(Rewrite, ReturnsTextWithItsType) {
  auto sites = TestSites::server("location / { default_type text/x; return 200 \"hi $uri\"; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  TestRequest request(*sites.services, "GET", "/a");
  EXPECT_EQ(sites.run(request), "200 hi /a");
  EXPECT_EQ(request.transport.content_type, "text/x");
  EXPECT_EQ(request.transport.content_length, 5u);
}

TEST_F(Rewrite, ReturnForms) {
  EXPECT_EQ(get("return 301 https://$host$request_uri;", "/a%20b?c"), "301 -> https://h/a%20b?c");
  EXPECT_EQ(get("return https://x.org/;", "/"), "302 -> https://x.org/");
  EXPECT_EQ(get("return 308 /rel;", "/"), "308 -> http://h/rel");
  EXPECT_EQ(get("return 404;", "/"), "404");
  EXPECT_EQ(get("return 403 \"no\";", "/"), "403 no");
  EXPECT_EQ(get("return 204;", "/"), "204");
  EXPECT_EQ(get("return 200;", "/"), "200");
  EXPECT_EQ(get("return 444;", "/"), "reset");
}

TEST_F(Rewrite, ReturnErrors) {
  error("return 1000;", "invalid return code \"1000\"");
  error("return /path;", "invalid return code \"/path\"");
  error("return text 200;", "invalid return code \"text\"");
}

// Case 5 of the field's: a decoded line break must not become a field of its own.
TEST_F(Rewrite, NoLineBreakGetsIntoLocation) {
  EXPECT_EQ(get("location / { return 302 https://h$uri; }", "/%0d%0ax-injection:/wp-admin"),
            "302 -> https://h/%0D%0Ax-injection:/wp-admin");
  EXPECT_EQ(get("rewrite ^ https://h$uri permanent;", "/%0d%0aA:b"), "301 -> https://h/%0D%0AA:b");
  EXPECT_EQ(get("rewrite ^/((?s).*)$ https://h/$1 permanent;", "/%0d%0aA:b"),
            "301 -> https://h/%0D%0AA:b");
}

TEST_F(Rewrite, TheDocumentationsExample) {
  const std::string_view text = R"(
      rewrite ^(/download/.*)/media/(.*)\..*$ $1/mp3/$2.mp3 last;
      rewrite ^(/download/.*)/audio/(.*)\..*$ $1/mp3/$2.ra last;
      location / { answer $uri; })";
  EXPECT_EQ(get(text, "/download/a/media/b.avi"), "200 /download/a/mp3/b.mp3");
  EXPECT_EQ(get(text, "/download/a/audio/b.avi"), "200 /download/a/mp3/b.ra");
  EXPECT_EQ(get(text, "/other"), "200 /other");
}

TEST_F(Rewrite, Arguments) {
  const auto args = [&](std::string_view replacement, std::string_view target) {
    return get(
        fmt::format("rewrite ^/(.*)$ {}; location / {{ answer \"$uri|$args\"; }}", replacement),
        target);
  };
  EXPECT_EQ(args("/n/$1", "/a?x=1"), "200 /n/a|x=1");
  EXPECT_EQ(args("/n/$1?y=2", "/a?x=1"), "200 /n/a|y=2&x=1");
  EXPECT_EQ(args("/n/$1?y=2", "/a"), "200 /n/a|y=2");
  EXPECT_EQ(args("/n/$1?", "/a?x=1"), "200 /n/a|");
  EXPECT_EQ(args("/n/$1?y=2?", "/a?x=1"), "200 /n/a|y=2");
  EXPECT_EQ(args("/n?q=$1", "/a%26b=c"), "200 /n|q=a%26b=c");
  EXPECT_EQ(args("/n?q=$1", "/a&b"), "200 /n|q=a&b");
}

TEST_F(Rewrite, Redirects) {
  EXPECT_EQ(get("rewrite ^/a(.*)$ /b$1 redirect;", "/a%20c?x=1"), "302 -> http://h/b%20c?x=1");
  EXPECT_EQ(get("rewrite ^/a(.*)$ /b$1? permanent;", "/ac?x=1"), "301 -> http://h/bc");
  EXPECT_EQ(get("rewrite ^/a(.*)$ http://o$1?y;", "/ac?x=1"), "302 -> http://oc?y&x=1");
  EXPECT_EQ(get("rewrite ^(.*)$ $scheme://o$1;", "/ac"), "302 -> http://o/ac");
  EXPECT_EQ(get("rewrite ^(.*)$ https://o$1 last;", "/a%3Fc"), "302 -> https://o/a%3Fc");
}

TEST_F(Rewrite, LastLooksForTheLocationAgainAndBreakDoesNot) {
  const std::string_view text = R"(
      location /last { rewrite ^ /other last; answer last; }
      location /break { rewrite ^ /other break; answer "break $uri"; }
      location /plain { rewrite ^ /step; rewrite ^/step$ /other; answer plain; }
      location /stay { rewrite ^ /other; break; answer "stay $uri"; }
      location / { answer "root $uri"; })";
  EXPECT_EQ(get(text, "/last"), "200 root /other");
  EXPECT_EQ(get(text, "/break"), "200 break /other");
  EXPECT_EQ(get(text, "/plain"), "200 root /other");
  EXPECT_EQ(get(text, "/stay"), "200 stay /other");
}

TEST_F(Rewrite, ACycleIsCutOff) { EXPECT_EQ(get("location / { rewrite ^ /x last; }", "/"), "500"); }

TEST_F(Rewrite, DirectivesRunInTheOrderOfTheFile) {
  EXPECT_EQ(get(R"(set $a 1; if ($a = 1) { set $a 2; } set $b $a; if ($b = 2) { set $b 3; }
                   location / { answer "$a$b"; })",
                "/"),
            "200 23");
  EXPECT_EQ(get("location / { if ($uri) { return 200 if; } return 200 after; }", "/"), "200 if");
  EXPECT_EQ(get("location / { return 200 before; if ($uri) { return 200 if; } }", "/"),
            "200 before");
}

TEST_F(Rewrite, ServerThenLocation) {
  EXPECT_EQ(get("set $x server; location / { set $x \"$x-location\"; answer $x; }", "/"),
            "200 server-location");
  EXPECT_EQ(get("return 200 server; location / { answer location; }", "/"), "200 server");
  EXPECT_EQ(get("rewrite ^/a /b; rewrite ^/b /c; location / { answer $uri; }", "/a"), "200 /c");
  EXPECT_EQ(get("rewrite ^/a /b break; rewrite ^/b /c; location / { answer $uri; }", "/a"),
            "200 /b");
}

TEST_F(Rewrite, NestedLocationsDoNotInheritThem) {
  const std::string_view text =
      "location /a/ { return 200 outer; location /a/b/ { answer inner; } }";
  EXPECT_EQ(get(text, "/a/x"), "200 outer");
  EXPECT_EQ(get(text, "/a/b/x"), "200 inner");
}

TEST_F(Rewrite, Conditions) {
  const auto holds = [&](std::string_view condition, std::string_view target,
                         TestRequest::Fields fields = {{"Host", "h"}}) {
    return get(fmt::format("if {} {{ return 200 yes; }} return 200 no;", condition), target,
               fields);
  };
  EXPECT_EQ(holds("($arg_x)", "/?x=1"), "200 yes");
  EXPECT_EQ(holds("($arg_x)", "/?x=0"), "200 no");
  EXPECT_EQ(holds("($arg_x)", "/?x="), "200 no");
  EXPECT_EQ(holds("($arg_x)", "/?x=00"), "200 yes");
  EXPECT_EQ(holds("($arg_x)", "/"), "200 no");
  EXPECT_EQ(holds("( $arg_x )", "/?x=1"), "200 yes");
  EXPECT_EQ(holds("($request_method = GET)", "/"), "200 yes");
  EXPECT_EQ(holds("($request_method != GET)", "/"), "200 no");
  EXPECT_EQ(holds("($arg_a = $arg_b)", "/?a=1&b=1"), "200 yes");
  EXPECT_EQ(holds("($arg_a = '')", "/"), "200 yes");
  EXPECT_EQ(holds("($http_user_agent ~ MSIE)", "/", {{"User-Agent", "x MSIE"}}), "200 yes");
  EXPECT_EQ(holds("($http_user_agent ~ msie)", "/", {{"User-Agent", "x MSIE"}}), "200 no");
  EXPECT_EQ(holds("($http_user_agent ~* msie)", "/", {{"User-Agent", "x MSIE"}}), "200 yes");
  EXPECT_EQ(holds("($http_user_agent !~* msie)", "/", {{"User-Agent", "x"}}), "200 yes");
  EXPECT_EQ(holds("($http_user_agent !~ MSIE)", "/", {{"User-Agent", "MSIE"}}), "200 no");
}

TEST_F(Rewrite, ConditionsCapture) {
  EXPECT_EQ(get(R"x(if ($http_cookie ~* "id=([^;]+)(?:;|$)") { set $id $1; }
                    location / { answer "[$id]"; })x",
                "/", {{"Cookie", "a=b; ID=42; c"}}),
            "200 [42]");
}

TEST_F(Rewrite, FileTests) {
  char directory[] = "/tmp/corehttpd-rewrite-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string file = std::string(directory) + "/file";
  std::ofstream(file) << "x";
  const auto holds = [&](std::string_view condition) {
    return get(fmt::format("set $d {}; if ({}) {{ return 200 yes; }} return 200 no;", directory,
                           condition),
               "/");
  };
  EXPECT_EQ(holds("-f $d/file"), "200 yes");
  EXPECT_EQ(holds("-f $d"), "200 no");
  EXPECT_EQ(holds("!-f $d/none"), "200 yes");
  EXPECT_EQ(holds("-d $d"), "200 yes");
  EXPECT_EQ(holds("!-d $d/file"), "200 yes");
  EXPECT_EQ(holds("-e $d/file"), "200 yes");
  EXPECT_EQ(holds("!-e $d/none"), "200 yes");
  EXPECT_EQ(holds("-x $d"), "200 yes");
  EXPECT_EQ(holds("!-x $d/file"), "200 yes");
  ::unlink(file.c_str());
  ::rmdir(directory);
}

TEST_F(Rewrite, ConditionErrors) {
  error("if $x { }", "invalid condition \"$x\"");
  error("if ($uri { }", "invalid condition");
  error("if (uri) { }", "invalid condition \"uri\"");
  error("if () { }", "invalid condition");
  error("if (-q /x) { }", "invalid condition \"-q\"");
  error("if ($uri == /) { }", "unexpected \"==\" in condition");
  error("if ($uri = /a b) { }", "invalid condition \"$uri\"");
  error("if ($nosuch) { }", "unknown \"nosuch\" variable");
  error("if ($uri ~ \"(\") { }", "pcre2_compile() failed");
}

TEST_F(Rewrite, AnIfInALocationHasItsOwnSettings) {
  const std::string_view text = R"(
      location / {
        answer plain;
        if ($arg_a) { answer "a $uri"; }
        if ($arg_b) { answer b; }
        if ($arg_c) { set $c 1; }
        if ($arg_d) { rewrite ^ /d break; }
      })";
  EXPECT_EQ(get(text, "/"), "200 plain");
  EXPECT_EQ(get(text, "/?a=1"), "200 a /");
  // The last one that holds decides.
  EXPECT_EQ(get(text, "/?a=1&b=1"), "200 b");
  EXPECT_EQ(get(text, "/?c=1"), "200 plain");
  EXPECT_EQ(get(text, "/x?d=1"), "200 plain");
}

TEST_F(Rewrite, SetOfBuiltIns) {
  EXPECT_EQ(get("set $args \"y=2\"; location / { answer \"$args $arg_y\"; }", "/?x=1"),
            "200 y=2 2");
  EXPECT_EQ(get("set $limit_rate 10k; location / { answer $limit_rate; }", "/"), "200 10240");
  error("set $uri /x;", "the duplicate \"uri\" variable");
  error("set x y;", "invalid variable name \"x\"");
}

TEST_F(Rewrite, ReadingBeforeSettingIsEmpty) {
  EXPECT_EQ(get("if ($arg_x) { set $v 1; } location / { answer \"[$v]\"; }", "/"), "200 []");
}

TEST_F(Rewrite, ErrorsAreNginxs) {
  error("rewrite ^ /x forever;", "invalid parameter \"forever\"");
  error("rewrite ^ \"\";", "empty replacement");
  error("rewrite ( /x;", "pcre2_compile() failed");
  error("location / { if ($uri) { if ($args) { } } }", "not allowed here");
}

TEST_F(Rewrite, EmptyAndClimbingUrisAreRefused) {
  EXPECT_EQ(get("rewrite ^/a(.*)$ $1 break; location / { answer $uri; }", "/a"), "500");
  EXPECT_EQ(get("rewrite ^ /files/$arg_f; location / { answer $uri; }", "/?f=../../etc/passwd"),
            "400");
  EXPECT_EQ(get("rewrite ^ /files/$arg_f; location / { answer $uri; }", "/?f=a..b"),
            "200 /files/a..b");
}

TEST_F(Rewrite, WordPressAndOthers) {
  const std::string_view text = R"(
      location / {
        if (!-e /nonexistent$uri) { rewrite ^/(.*)$ /index.php?q=$1 last; }
        answer static;
      }
      location ~ \.php$ { answer "php $args"; })";
  EXPECT_EQ(get(text, "/2024/05/post?x=1"), "200 php q=2024/05/post&x=1");
}

}  // namespace
}  // namespace corehttpd::handlers
