#include <gtest/gtest.h>
#include <unistd.h>

#include "support/sites.h"

namespace corehttpd::expr {
namespace {

using test::TestRequest;
using test::TestSites;

// The text of one variable for a request.
class Variables : public ::testing::Test {
 protected:
  std::string value(std::string_view variable, std::string_view target = "/",
                    TestRequest::Fields fields = {{"Host", "h"}}) {
    auto sites = TestSites::server(
        fmt::format("server_name first second; location / {{ answer \"{}\"; }}", variable));
    EXPECT_TRUE(sites.compiled) << sites.compiled.text();
    if (!sites.compiled) return {};
    TestRequest request(*sites.services, "GET", target, fields);
    sites.services->clock.set(5'000, 1'700'000'000'123'456);
    request.transport.info.accepted_ms = 1'250;
    request.exchange().request().head_bytes = 77;
    request.exchange().start();
    sites.services->clock.set(6'789, 1'700'000'001'000'000);
    request.turns();
    request.transport.pull();
    return request.transport.body;
  }
};

TEST_F(Variables, OfTheUri) {
  EXPECT_EQ(value("$uri", "/a%20b/../c?x"), "/c");
  EXPECT_EQ(value("$document_uri", "/a"), "/a");
  EXPECT_EQ(value("$request_uri", "/a%20b?x=1"), "/a%20b?x=1");
  EXPECT_EQ(value("$args", "/a?x=%20"), "x=%20");
  EXPECT_EQ(value("$query_string", "/a?x"), "x");
  EXPECT_EQ(value("[$is_args]", "/a?x"), "[?]");
  EXPECT_EQ(value("[$is_args]", "/a?"), "[]");
  EXPECT_EQ(value("$request", "/a"), "GET /a HTTP/1.1");
  EXPECT_EQ(value("$request_method"), "GET");
  EXPECT_EQ(value("$server_protocol"), "HTTP/1.1");
}

TEST_F(Variables, Arguments) {
  EXPECT_EQ(value("$arg_b", "/?a=1&B=2&b=3"), "2");
  EXPECT_EQ(value("[$arg_a]", "/?aa=1&a"), "[]");
  EXPECT_EQ(value("[$arg_a]", "/?aa=1&a=&x"), "[]");
  EXPECT_EQ(value("$arg_a", "/?x=a=1&a=b=c"), "b=c");
}

TEST_F(Variables, Fields) {
  EXPECT_EQ(value("$http_user_agent", "/", {{"Host", "h"}, {"User-Agent", "ua"}}), "ua");
  EXPECT_EQ(value("[$http_none]"), "[]");
  EXPECT_EQ(value("$http_x_a", "/", {{"X-A", "1"}, {"x-a", "2"}}), "1, 2");
  EXPECT_EQ(value("$http_cookie", "/", {{"Cookie", "a=1"}, {"Cookie", "b=2"}}), "a=1; b=2");
  EXPECT_EQ(value("$http_host", "/", {{"Host", "Name:8080"}}), "Name:8080");
  EXPECT_EQ(value("$content_type", "/", {{"Content-Type", "text/x"}}), "text/x");
}

TEST_F(Variables, Cookies) {
  EXPECT_EQ(value("$cookie_b", "/", {{"Cookie", "a=1; b=2;c=3"}}), "2");
  EXPECT_EQ(value("$cookie_c", "/", {{"Cookie", "a=1; b=2;c=3"}}), "3");
  EXPECT_EQ(value("$cookie_sid", "/", {{"Cookie", "xsid=0"}, {"Cookie", "SID=q=="}}), "q==");
  EXPECT_EQ(value("[$cookie_a]", "/", {{"Cookie", "b=a=1"}}), "[]");
}

TEST_F(Variables, Host) {
  EXPECT_EQ(value("$host", "/", {{"Host", "WWW.Example.org:80"}}), "www.example.org");
  EXPECT_EQ(value("$host", "/", {}), "first");
  EXPECT_EQ(value("$server_name"), "first");
}

TEST_F(Variables, RemoteUserIsWhatBasicCredentialsName) {
  // "ann:secret", "ann" and no base64.
  EXPECT_EQ(value("$remote_user", "/", {{"Authorization", "Basic YW5uOnNlY3JldA=="}}), "ann");
  EXPECT_EQ(value("[$remote_user]", "/", {{"Authorization", "Basic YW5u"}}), "[]");
  EXPECT_EQ(value("[$remote_user]", "/", {{"Authorization", "Basic ***"}}), "[]");
  EXPECT_EQ(value("[$remote_user]", "/", {{"Authorization", "Bearer YW5uOnNlY3JldA=="}}), "[]");
}

TEST_F(Variables, Connection) {
  EXPECT_EQ(value("$remote_addr:$remote_port"), "192.0.2.7:50000");
  EXPECT_EQ(value("$server_addr:$server_port"), "127.0.0.1:80");
  EXPECT_EQ(value("$connection $connection_requests $pipe"), "1 1 .");
  EXPECT_EQ(value("$connection_time"), "3.750");
  EXPECT_EQ(value("$scheme[$https]"), "http[]");
  EXPECT_EQ(value("$binary_remote_addr"), std::string("\xc0\x00\x02\x07", 4));
  EXPECT_EQ(value("[$proxy_protocol_addr]"), "[]");
}

TEST_F(Variables, TimesAndSizes) {
  EXPECT_EQ(value("$msec"), "1700000000.123");
  EXPECT_EQ(value("$request_time"), "0.000");
  EXPECT_EQ(value("$request_length"), "77");
  EXPECT_EQ(value("$time_iso8601").size(), 25u);
  EXPECT_EQ(value("$time_local").size(), 26u);
}

TEST_F(Variables, Process) {
  EXPECT_EQ(value("$pid"), std::to_string(::getpid()));
  EXPECT_EQ(value("$nginx_version"), kNginxVersion);
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof(name) - 1), 0);
  EXPECT_EQ(value("$hostname"), name);
}

TEST_F(Variables, RequestIdIsStableWithinARequestAndNotAcross) {
  const std::string twice = value("$request_id$request_id");
  ASSERT_EQ(twice.size(), 64u);
  EXPECT_EQ(twice.substr(0, 32), twice.substr(32));
  EXPECT_EQ(twice.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(value("$request_id"), twice.substr(0, 32));
}

TEST_F(Variables, Response) {
  auto sites = TestSites::server("location / { answer x; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  TestRequest request(*sites.services, "GET", "/");
  http::Exchange& exchange = request.exchange();
  exchange.response().content_type = "text/html";
  exchange.response().charset = "utf-8";
  exchange.response().last_modified = 784111777;
  exchange.response().etag = "\"e\"";
  exchange.response().fields.add(exchange.arena(), "X-Thing", "1");
  exchange.response().fields.add(exchange.arena(), "X-Thing", "2");
  request.run();
  exchange.add_sent(100, 1);
  const auto get = [&](std::string_view name, std::string_view suffix = {}) -> std::string {
    for (const Variable& variable : core_variables()) {
      if (variable.name == name) return std::string(variable.get(exchange, suffix).value_or("-"));
    }
    return "?";
  };
  EXPECT_EQ(get("status"), "200");
  EXPECT_EQ(get("bytes_sent"), "101");
  EXPECT_EQ(get("body_bytes_sent"), "1");
  EXPECT_EQ(get("request_completion"), "");
  EXPECT_EQ(get("sent_http_", "content_type"), "text/html; charset=utf-8");
  EXPECT_EQ(get("sent_http_", "content_length"), "1");
  EXPECT_EQ(get("sent_http_", "last_modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(get("sent_http_", "etag"), "\"e\"");
  EXPECT_EQ(get("sent_http_", "x_thing"), "1, 2");
  EXPECT_EQ(get("sent_http_", "location"), "-");
  EXPECT_EQ(get("http_", "none"), "-");
  request.finish();
  EXPECT_EQ(get("request_completion"), "OK");
}

}  // namespace
}  // namespace corehttpd::expr
