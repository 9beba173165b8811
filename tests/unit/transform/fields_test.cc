#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "transform/expires.h"
#include "transform/trailer_source.h"
#include "unit/transform/transform_site.h"

namespace corehttpd::transform {
namespace {

using test::FileSite;
using test::TestRequest;

TEST(AddHeader, StatusesAndAlways) {
  FileSite site = make_site("add_header X-A a; add_header X-B b always;");
  site.directory.write("f.txt", "x");
  TestRequest found(site.services(), "GET", "/f.txt");
  found.run();
  EXPECT_EQ(found.transport.field("X-A"), "a");
  EXPECT_EQ(found.transport.field("X-B"), "b");
  TestRequest missing(site.services(), "GET", "/none");
  missing.run();
  EXPECT_EQ(missing.transport.status, 404);
  EXPECT_EQ(missing.transport.field("X-A"), "");
  EXPECT_EQ(missing.transport.field("X-B"), "b");
}

TEST(AddHeader, ABlockOfItsOwnHidesTheOuterOnes) {
  FileSite site = make_site(
      "add_header X-A a; add_header X-C c; location /in/ { add_header X-B b; }"
      "location /plain/ { default_type x/y; }");
  for (const char* name : {"in/f", "plain/f"}) site.directory.write(name, "x");
  TestRequest inner(site.services(), "GET", "/in/f");
  inner.run();
  EXPECT_EQ(inner.transport.field("X-A"), "");
  EXPECT_EQ(inner.transport.field("X-B"), "b");
  TestRequest plain(site.services(), "GET", "/plain/f");
  plain.run();
  EXPECT_EQ(plain.transport.field("X-A"), "a");
  EXPECT_EQ(plain.transport.field("X-C"), "c");
}

// "a,b": the values of X.
std::string values_of_x(FileSite& site, std::string_view path) {
  TestRequest request(site.services(), "GET", path);
  request.run();
  std::string all;
  for (const auto& [name, value] : request.transport.fields) {
    if (name == "X") all.append(all.empty() ? "" : ",").append(value);
  }
  return all;
}

TEST(AddHeader, InheritanceCanBeMergedOrCutOff) {
  FileSite site = make_site(
      "add_header X outer; add_header X outer2;"
      "location /merge/ { add_header X own; add_header_inherit merge; }"
      "location /cut/ { add_header_inherit off; add_header X own; }"
      "location /none/ { add_header_inherit off; }"
      "location /on/ { add_header_inherit on; add_header X own; }");
  for (const char* name : {"f", "merge/f", "cut/f", "none/f", "on/f"}) {
    site.directory.write(name, "x");
  }
  EXPECT_EQ(values_of_x(site, "/f"), "outer,outer2");
  EXPECT_EQ(values_of_x(site, "/merge/f"), "own,outer,outer2");
  EXPECT_EQ(values_of_x(site, "/cut/f"), "own");
  EXPECT_EQ(values_of_x(site, "/none/f"), "");
  EXPECT_EQ(values_of_x(site, "/on/f"), "own");
}

TEST(AddHeader, TheRuleOfInheritanceIsInherited) {
  // The rule itself holds in all blocks within, whichever of the two directives comes first.
  FileSite merging = make_site(
      "add_header_inherit merge; add_header X outer;"
      "location /a/ { add_header X a; } location /plain/ { default_type x/y; }");
  FileSite cutting = make_site(
      "add_header X outer; add_header_inherit off;"
      "location /a/ { add_header X a; } location /plain/ { default_type x/y; }");
  for (FileSite* site : {&merging, &cutting}) {
    for (const char* name : {"f", "a/f", "plain/f"}) site->directory.write(name, "x");
    EXPECT_EQ(values_of_x(*site, "/f"), "outer");
  }
  EXPECT_EQ(values_of_x(merging, "/a/f"), "a,outer");
  EXPECT_EQ(values_of_x(merging, "/plain/f"), "outer");
  EXPECT_EQ(values_of_x(cutting, "/a/f"), "a");
  EXPECT_EQ(values_of_x(cutting, "/plain/f"), "");
}

TEST(AddHeader, VariablesEmptyValuesAndLineBreaks) {
  FileSite site = make_site("add_header X-Arg $arg_a; add_header X-Uri $uri;");
  site.directory.write("f\r\nInjected: 1", "x");
  TestRequest request(site.services(), "GET", "/f%0d%0aInjected:%201");
  request.run();
  EXPECT_EQ(request.transport.status, 200);
  const auto& fields = request.transport.fields;
  EXPECT_EQ(request.transport.field("X-Uri"), "/f  Injected: 1");
  EXPECT_TRUE(std::none_of(fields.begin(), fields.end(),
                           [](const auto& field) { return field.first == "X-Arg"; }));
}

TEST(AddHeader, FieldsWithAPlaceOfTheirOwn) {
  FileSite site = make_site(
      "add_header Last-Modified \"\"; add_header ETag '\"own\"'; add_header Content-Type x/y;"
      "add_header Connection close;");
  site.directory.write("f.txt", "x");
  TestRequest request(site.services(), "GET", "/f.txt");
  request.run();
  EXPECT_EQ(request.transport.last_modified, -1);
  EXPECT_EQ(request.transport.etag, "\"own\"");
  EXPECT_EQ(request.transport.content_type, "x/y");
  EXPECT_EQ(request.transport.field("Connection"), "");
  EXPECT_TRUE(site.compiled.warning("belongs to the protocol"));
  EXPECT_TRUE(site.compiled.warning("replaces the response's own"));
}

// A body with a trailer of its own.
class OneByte final : public http::BodySource {
 public:
  explicit OneByte(Arena& arena) { list_.add(arena, "X-Inner", "inner"); }
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t, http::Forms) override {
    out[0] = Segment::from_static("x");
    return http::ReadOutcome{1, http::Next::kEnd};
  }
  const http::FieldList* trailers() override { return &list_; }

 private:
  http::FieldList list_;
};

TEST(Trailers, AreAddedToABodysOwn) {
  FileSite site = make_site(
      "add_trailer X-Arg $arg_a; add_trailer X-Empty $arg_none; add_trailer X-Always y always;");
  site.directory.write("f.txt", "hello");
  TestRequest request(site.services(), "GET", "/f.txt?a=b");
  request.run();
  EXPECT_EQ(request.transport.body, "hello");
  EXPECT_FALSE(request.transport.content_length);  // HTTP/1.1 needs chunks for trailers.

  http::Exchange& exchange = request.exchange();
  const auto& configured = exchange.settings<FieldsSettings>().trailers;
  OneByte body(exchange.arena());
  const auto names = [&](bool only_always) {
    std::vector<const FieldsSettings::Added*> wanted;
    configured.for_each(exchange.settings_view(), [&](const auto& trailer) {
      if (trailer.always || !only_always) wanted.push_back(&trailer);
    });
    TrailerSource source(exchange, body, wanted);
    std::string all;
    for (const http::Field& field : *source.trailers()) {
      all.append(field.name).append("=").append(field.value).append(" ");
    }
    return all;
  };
  EXPECT_EQ(names(false), "X-Inner=inner X-Arg=b X-Always=y ");
  EXPECT_EQ(names(true), "X-Inner=inner X-Always=y ");
}

TEST(Expires, Parsing) {
  const auto is = [](std::string_view text, Expires::Kind kind, std::int64_t seconds,
                     bool modified = false) {
    const auto expires = parse_expires(text, modified);
    return expires && expires->kind == kind && expires->seconds == seconds;
  };
  EXPECT_TRUE(is("off", Expires::Kind::kOff, 0));
  EXPECT_TRUE(is("epoch", Expires::Kind::kEpoch, 0));
  EXPECT_TRUE(is("max", Expires::Kind::kMax, 0));
  EXPECT_TRUE(is("30d", Expires::Kind::kAccess, 2'592'000));
  EXPECT_TRUE(is("+1h30m", Expires::Kind::kAccess, 5'400));
  EXPECT_TRUE(is("-1", Expires::Kind::kAccess, -1));
  EXPECT_TRUE(is("0", Expires::Kind::kAccess, 0));
  EXPECT_TRUE(is("@15h30m", Expires::Kind::kDaily, 55'800));
  EXPECT_TRUE(is("+24h", Expires::Kind::kModified, 86'400, true));
  EXPECT_FALSE(parse_expires("", false));
  EXPECT_FALSE(parse_expires("soon", false));
  EXPECT_FALSE(parse_expires("@25h", false));
  EXPECT_FALSE(parse_expires("@5h", true));
  EXPECT_FALSE(parse_expires("epoch", true));
}

TEST(Expires, FieldsOfTheResponse) {
  FileSite site = make_site(
      "location /hour/ { expires 1h; } location /past/ { expires -1; }"
      "location /epoch/ { expires epoch; } location /max/ { expires max; }"
      "location /mod/ { expires modified 1d; } location /now/ { expires 0; }"
      "location /var/ { expires $arg_e; }");
  // Tue, 15 Nov 1994 12:45:26 GMT.
  const std::int64_t now = 784903526;
  site.services().clock.set(1000, now * 1'000'000);
  for (const char* name : {"hour", "past", "epoch", "max", "mod", "now", "var"}) {
    const std::string path = site.directory.write(std::string(name) + "/f", "x");
    const timespec times[2] = {{now - 3600, 0}, {now - 3600, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  const std::tuple<std::string_view, std::string_view, std::string_view> cases[] = {
      {"/hour/f", "Tue, 15 Nov 1994 13:45:26 GMT", "max-age=3600"},
      {"/past/f", "Tue, 15 Nov 1994 12:45:25 GMT", "no-cache"},
      {"/epoch/f", "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"},
      {"/max/f", "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"},
      {"/mod/f", "Wed, 16 Nov 1994 11:45:26 GMT", "max-age=82800"},
      {"/now/f", "Tue, 15 Nov 1994 12:45:26 GMT", "max-age=0"},
      {"/var/f?e=10m", "Tue, 15 Nov 1994 12:55:26 GMT", "max-age=600"},
      {"/var/f?e=20000y", "Fri, 31 Dec 9999 23:59:59 GMT", "max-age=252617397273"},
      {"/var/f?e=nonsense", "", ""},
      {"/var/f", "", ""}};
  for (const auto& [target, expires, control] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, 200) << target;
    EXPECT_EQ(request.transport.field("Expires"), expires) << target;
    EXPECT_EQ(request.transport.field("Cache-Control"), control) << target;
  }
  TestRequest missing(site.services(), "GET", "/hour/none");
  missing.run();
  EXPECT_EQ(missing.transport.field("Expires"), "");
}

TEST(Expires, DailyLiesWithinADay) {
  FileSite site = make_site("expires @12h;");
  site.directory.write("f", "x");
  TestRequest request(site.services(), "GET", "/f");
  request.run();
  const std::int64_t at = parse_http_date(request.transport.field("Expires"));
  const std::int64_t now = site.services().clock.wall_seconds();
  EXPECT_GT(at, now);
  EXPECT_LE(at, now + 25 * 3600);  // An hour more when the clocks go back.
  EXPECT_EQ(request.transport.field("Cache-Control"), "max-age=" + std::to_string(at - now));
}

TEST(Charset, IsNamedForItsTypes) {
  FileSite site = make_site(
      "charset utf-8; types { text/html html; image/png png; text/css css; x/y z; }"
      "location /off/ { charset off; } location /css/ { charset_types text/css; }"
      "location /all/ { charset_types *; charset $arg_c; }");
  for (const char* name : {"a.html", "a.png", "a.css", "off/a.html", "css/a.css", "css/a.html",
                           "css/a.txt", "all/a.z"}) {
    site.directory.write(name, "x");
  }
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"/a.html", "text/html; charset=utf-8"},
      {"/a.png", "image/png"},
      {"/a.css", "text/css"},
      {"/off/a.html", "text/html"},
      {"/css/a.css", "text/css; charset=utf-8"},
      {"/css/a.html", "text/html; charset=utf-8"},
      {"/css/a.txt", "text/plain"},
      {"/all/a.z?c=koi8-r", "x/y; charset=koi8-r"},
      {"/all/a.z?c=a=b", "x/y"},
      {"/all/a.z", "x/y"}};
  for (const auto& [target, type] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.content_type, type) << target;
  }
}

}  // namespace
}  // namespace corehttpd::transform
