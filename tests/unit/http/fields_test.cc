#include "corehttpd/http/fields.h"

#include <gtest/gtest.h>

#include <string>

#include "corehttpd/http/message.h"

namespace corehttpd::http {
namespace {

TEST(Method, KnownNamesRoundTrip) {
  for (int i = 1; i <= static_cast<int>(Method::kUnlock); ++i) {
    const auto method = static_cast<Method>(i);
    EXPECT_FALSE(to_string(method).empty());
    EXPECT_EQ(parse_method(to_string(method)), method) << to_string(method);
  }
}

TEST(Method, IsCaseSensitiveAndExact) {
  EXPECT_EQ(parse_method("GET"), Method::kGet);
  EXPECT_EQ(parse_method("get"), Method::kUnknown);
  EXPECT_EQ(parse_method("GETS"), Method::kUnknown);
  EXPECT_EQ(parse_method(""), Method::kUnknown);
  EXPECT_EQ(parse_method("PURGE"), Method::kUnknown);
}

TEST(FieldName, AnyCaseOfEveryKnownName) {
  struct Case {
    std::string_view text;
    FieldName id;
  };
  constexpr Case kCases[] = {
      {"Host", FieldName::kHost},
      {"host", FieldName::kHost},
      {"HOST", FieldName::kHost},
      {"hOsT", FieldName::kHost},
      {"accept", FieldName::kAccept},
      {"Accept-Encoding", FieldName::kAcceptEncoding},
      {"Accept-Ranges", FieldName::kAcceptRanges},
      {"Age", FieldName::kAge},
      {"Authorization", FieldName::kAuthorization},
      {"cache-control", FieldName::kCacheControl},
      {"Connection", FieldName::kConnection},
      {"Content-Encoding", FieldName::kContentEncoding},
      {"Content-Length", FieldName::kContentLength},
      {"Content-Range", FieldName::kContentRange},
      {"content-type", FieldName::kContentType},
      {"Cookie", FieldName::kCookie},
      {"Date", FieldName::kDate},
      {"ETag", FieldName::kEtag},
      {"etag", FieldName::kEtag},
      {"Etag", FieldName::kEtag},
      {"Expect", FieldName::kExpect},
      {"Expires", FieldName::kExpires},
      {"If-Match", FieldName::kIfMatch},
      {"If-Modified-Since", FieldName::kIfModifiedSince},
      {"If-None-Match", FieldName::kIfNoneMatch},
      {"If-Range", FieldName::kIfRange},
      {"If-Unmodified-Since", FieldName::kIfUnmodifiedSince},
      {"Keep-Alive", FieldName::kKeepAlive},
      {"Last-Modified", FieldName::kLastModified},
      {"Location", FieldName::kLocation},
      {"Origin", FieldName::kOrigin},
      {"Proxy-Authorization", FieldName::kProxyAuthorization},
      {"Proxy-Connection", FieldName::kProxyConnection},
      {"Range", FieldName::kRange},
      {"Referer", FieldName::kReferer},
      {"Server", FieldName::kServer},
      {"Set-Cookie", FieldName::kSetCookie},
      {"TE", FieldName::kTe},
      {"te", FieldName::kTe},
      {"Trailer", FieldName::kTrailer},
      {"tRANSFER-ENCODING", FieldName::kTransferEncoding},
      {"Upgrade", FieldName::kUpgrade},
      {"User-Agent", FieldName::kUserAgent},
      {"Vary", FieldName::kVary},
      {"Via", FieldName::kVia},
      {"WWW-Authenticate", FieldName::kWwwAuthenticate},
      {"X-Forwarded-For", FieldName::kXForwardedFor},
  };
  for (const Case& c : kCases) EXPECT_EQ(parse_field_name(c.text), c.id) << c.text;
}

TEST(FieldName, NearMissesAreOther) {
  for (std::string_view name :
       {"", "Hos", "Hosts", "X_Forwarded_For", "Hpst", "Content_Length", "X-Content-Type-Options",
        "If-Unmodified-Since-Or-Never", "Aga", "\x08ost", "Transfer\rEncoding"}) {
    EXPECT_EQ(parse_field_name(name), FieldName::kOther) << name;
  }
}

TEST(FieldList, FindsRemovesAndReplaces) {
  Arena arena;
  FieldList list;
  list.add(arena, "X-One", "1");
  list.add(arena, "Host", "a");
  list.add(arena, "x-one", "2");
  EXPECT_EQ(list.find("X-ONE")->value, "1");
  EXPECT_EQ(list.find("hOST")->value, "a");
  EXPECT_EQ(list.find(FieldName::kHost)->value, "a");
  EXPECT_EQ(list.find("X-Two"), nullptr);
  EXPECT_EQ(list.value(FieldName::kCookie), "");
  list.set(arena, "X-One", "3");
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list.find("x-one")->value, "3");
  list.remove("host");
  EXPECT_EQ(list.find(FieldName::kHost), nullptr);
}

TEST(FieldList, JoinsValuesOfOneName) {
  Arena arena;
  FieldList list;
  EXPECT_EQ(list.joined(arena, FieldName::kCookie, "; "), "");
  list.add(arena, "Cookie", "a=1");
  EXPECT_EQ(list.joined(arena, FieldName::kCookie, "; "), "a=1");
  list.add(arena, "Accept", "x");
  list.add(arena, "cookie", "b=2");
  list.add(arena, "cookie", "");
  EXPECT_EQ(list.joined(arena, FieldName::kCookie, "; "), "a=1; b=2; ");
}

TEST(FieldSyntax, Tokens) {
  EXPECT_TRUE(is_token("X-Forwarded_For!#$%&'*+.^`|~"));
  for (std::string_view bad : {"", "a b", "a:", "a\t", "\"a\"", "a/b", "(a)", "\x7f", "\xc3\xa4"})
    EXPECT_FALSE(is_token(bad)) << bad;
}

TEST(FieldSyntax, Values) {
  EXPECT_TRUE(is_field_value("text/html; charset=utf-8"));
  EXPECT_TRUE(is_field_value(""));
  EXPECT_FALSE(is_field_value("a\r\nb"));
  EXPECT_FALSE(is_field_value("a\nb"));
  EXPECT_FALSE(is_field_value(std::string_view("a\0b", 3)));
}

TEST(Message, ReasonsAndVersions) {
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(302), "Moved Temporarily");
  EXPECT_EQ(reason_phrase(100), "Continue");
  EXPECT_EQ(reason_phrase(511), "Network Authentication Required");
  for (std::uint16_t status : {0, 99, 299, 512, 599, 600, 999}) {
    EXPECT_EQ(reason_phrase(status), "") << status;
  }
  EXPECT_EQ(to_string(Version::k10), "HTTP/1.0");
  EXPECT_EQ(to_string(Version::k2), "HTTP/2.0");
  EXPECT_TRUE(never_has_body(304));
  EXPECT_FALSE(never_has_body(200));
}

}  // namespace
}  // namespace corehttpd::http
