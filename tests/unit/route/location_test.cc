// Which location answers: nginx's documented examples, and what is easy to get wrong.
#include <gtest/gtest.h>

#include "support/sites.h"

namespace corehttpd::route {
namespace {

using test::TestSites;

TEST(Location, TheDocumentationsExample) {
  auto sites = TestSites::server(R"(
      location = / { answer A; }
      location / { answer B; }
      location /documents/ { answer C; }
      location ^~ /images/ { answer D; }
      location ~* \.(gif|jpg|jpeg)$ { answer E; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/"), "200 A");
  EXPECT_EQ(sites.get("/index.html"), "200 B");
  EXPECT_EQ(sites.get("/documents/document.html"), "200 C");
  EXPECT_EQ(sites.get("/images/1.gif"), "200 D");
  EXPECT_EQ(sites.get("/documents/1.jpg"), "200 E");
  EXPECT_EQ(sites.get("/documents/1.JPG"), "200 E");
}

TEST(Location, FormsOfOneWord) {
  auto sites = TestSites::server(R"(
      location =/a { answer exact; } location ^~/b { answer stop; }
      location ~\.x$ { answer regex; } location ~*\.y$ { answer iregex; }
      location / { answer p; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/a"), "200 exact");
  EXPECT_EQ(sites.get("/a/"), "200 p");
  EXPECT_EQ(sites.get("/b.x"), "200 stop");
  EXPECT_EQ(sites.get("/c.x"), "200 regex");
  EXPECT_EQ(sites.get("/c.X"), "200 p");
  EXPECT_EQ(sites.get("/c.Y"), "200 iregex");
}

TEST(Location, LongestPrefixWhateverTheOrder) {
  auto sites = TestSites::server(R"(
      location /ab { answer ab; } location /abc/d { answer abcd; } location /a { answer a; }
      location /abc { answer abc; } location /abd { answer abd; }
      location = /abc { answer =abc; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/abc"), "200 =abc");
  EXPECT_EQ(sites.get("/abcd"), "200 abc");
  EXPECT_EQ(sites.get("/abc/"), "200 abc");
  EXPECT_EQ(sites.get("/abc/dd"), "200 abcd");
  EXPECT_EQ(sites.get("/abdx"), "200 abd");
  EXPECT_EQ(sites.get("/abx"), "200 ab");
  EXPECT_EQ(sites.get("/ax"), "200 a");
}

TEST(Location, BytesAboveAsciiSortAsBytes) {
  auto sites = TestSites::server(
      "location /\xc3\xa9 { answer e; } location /z { answer z; } location / { answer p; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/%C3%A9t"), "200 e");
  EXPECT_EQ(sites.get("/zz"), "200 z");
  EXPECT_EQ(sites.get("/%C3%A8"), "200 p");
}

TEST(Location, FirstRegexInTheOrderOfTheFile) {
  auto sites = TestSites::server(R"(
      location ~ /x { answer first; } location ~ /xy { answer second; }
      location /xy { answer p; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/xy"), "200 first");
}

TEST(Location, NestedRegexesComeBeforeTheOuterOnes) {
  auto sites = TestSites::server(R"(
      location ~ \.php$ { answer outer; }
      location /app/ {
        answer app;
        location ~ \.php$ { answer inner; }
        location /app/static/ { answer static; }
        location ^~ /app/raw/ { answer raw; }
        location = /app/one { answer one; }
      })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/app/x.php"), "200 inner");
  EXPECT_EQ(sites.get("/x.php"), "200 outer");
  EXPECT_EQ(sites.get("/app/x"), "200 app");
  EXPECT_EQ(sites.get("/app/static/x"), "200 static");
  EXPECT_EQ(sites.get("/app/static/x.php"), "200 inner");
  EXPECT_EQ(sites.get("/app/one"), "200 one");
  // The nested "^~" spares it the nested regex, but not the outer one.
  EXPECT_EQ(sites.get("/app/raw/x.php"), "200 outer");
}

TEST(Location, CaretTildeSparesTheRegexesBesideItOnly) {
  auto sites = TestSites::server(R"(
      location ~ \.php$ { answer outer; }
      location ^~ /up/ { answer up; location ~ \.php$ { answer inner; } })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/up/x.php"), "200 inner");
  EXPECT_EQ(sites.get("/up/x"), "200 up");
}

TEST(Location, RegexInRegex) {
  auto sites = TestSites::server(
      "location ~ ^/(a) { answer \"outer $1\"; location ~ (z)$ { answer \"inner $1\"; } }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/ab"), "200 outer a");
  EXPECT_EQ(sites.get("/abz"), "200 inner z");
}

TEST(Location, ContentHandlersAreNotInheritedByNestedOnes) {
  auto sites = TestSites::server("location /a/ { answer a; location /a/b/ { } }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/a/x"), "200 a");
  EXPECT_EQ(sites.get("/a/b/x"), "404");
}

TEST(Location, WithoutAnyTheServerAnswers) {
  auto sites = TestSites::server("answer server; location /a { answer a; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/a"), "200 a");
  EXPECT_EQ(sites.get("/b"), "200 server");
}

TEST(Location, AutoRedirectAddsTheSlash) {
  auto sites = TestSites::server(R"(
      location /dir/ { pass dir; } location /plain/ { answer plain; }
      location /dir/sub/ { pass sub; } location /both/ { pass b; }
      location = /both { answer exact; }
      location /x { answer x; } location /x/ { pass slash; }
      location ~ \.re$ { answer regex; } location /r.re/ { pass r; })");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/dir"), "301 -> http://h/dir/");
  EXPECT_EQ(sites.get("/dir?a=b"), "301 -> http://h/dir/?a=b");
  EXPECT_EQ(sites.get("/dir/"), "200 dir");
  EXPECT_EQ(sites.get("/dir/sub"), "301 -> http://h/dir/sub/");
  EXPECT_EQ(sites.get("/di"), "404");
  EXPECT_EQ(sites.get("/plain"), "404");
  EXPECT_EQ(sites.get("/both"), "200 exact");
  EXPECT_EQ(sites.get("/x"), "200 x");
  // Decided before any regex, as in nginx.
  EXPECT_EQ(sites.get("/r.re"), "301 -> http://h/r.re/");
}

TEST(Location, InternalOnesAreNotForClients) {
  auto sites =
      TestSites::server("location /i { internal; answer i; } location /r { rewrite ^ /i last; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/i"), "404");
  EXPECT_EQ(sites.get("/r"), "200 i");
}

TEST(Location, NamedOnesAreFoundByNameOnly) {
  auto sites =
      TestSites::server("location / { answer root; } location @n { answer \"named $uri\"; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/@n"), "200 root");
  test::TestRequest request(*sites.services, "GET", "/x");
  http::Exchange& exchange = request.exchange();
  exchange.start();
  EXPECT_TRUE(sites.tree().find_named_location(exchange, "@n"));
  EXPECT_EQ(exchange.location()->name, "@n");
  EXPECT_FALSE(sites.tree().find_named_location(exchange, "@m"));
}

TEST(Location, ErrorsAreNginxs) {
  const auto error = [](std::string_view text, std::string_view message) {
    const auto sites = TestSites::server(text);
    EXPECT_TRUE(sites.compiled.error(message)) << sites.compiled.text();
  };
  error("location /x { } location /x { }", "duplicate location \"/x\" in");
  error("location /x { } location ^~ /x { }", "duplicate location \"/x\" in");
  error("location = /x { } location =/x { }", "duplicate location \"/x\" in");
  error("location ! /x { }", "invalid location modifier \"!\"");
  error("location = /x { location /x/y { } }",
        "location \"/x/y\" cannot be inside the exact location \"/x\"");
  error("location @n { location / { } }",
        "location \"/\" cannot be inside the named location \"@n\"");
  error("location / { location @n { } }", "named location \"@n\" can be on the server level only");
  error("location /a { location /b { } }", "location \"/b\" is outside location \"/a\"");
  EXPECT_TRUE(TestSites::server("location = /x { } location /x { } location ~ /x { } "
                                "location ~ /x { }")
                  .compiled);
}

}  // namespace
}  // namespace corehttpd::route
