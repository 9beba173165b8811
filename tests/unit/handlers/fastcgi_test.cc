// fastcgi_* directives and the parameters that servers get, on the simulated loop.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>

#include "corehttpd/conf/later.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/handlers/gateway.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/route/tree.h"
#include "corehttpd/upstream/gateway.h"
#include "corehttpd/upstream/peers.h"
#include "support/compile.h"
#include "support/exchange.h"

namespace corehttpd::handlers {
namespace {

using Params = std::map<std::string, std::string>;

test::Compiled compile(std::string_view location) {
  static const http::StepFactory kFactories[] = {fastcgi_step()};
  static const std::span<const expr::Variable> kTables[] = {
      expr::core_variables(), upstream::upstream_variables(), fastcgi_variables()};
  const conf::Module* modules[] = {&http::core_module(),         &expr::expr_module(),
                                   &route::route_module(),       &upstream::upstream_module(),
                                   &upstream::resolver_module(), &handlers::fastcgi_module(),
                                   &conf::later_module()};
  const std::string text =
      "http { upstream php { server unix:/run/php.sock; }\n"
      "fastcgi_param FROM http; fastcgi_param OTHER x;\n"
      "server { listen 127.0.0.1:80; underscores_in_headers on; " +
      std::string(location) + " } }";
  return test::compile(text, modules, [](conf::Compiler& compiler) {
    expr::prepare(compiler, kTables);
    route::set_step_factories(compiler, kFactories);
  });
}

// The content of the PARAMS records, as pairs; repeated names are joined by '|'.
Params params_in(std::string_view bytes) {
  std::string stream;
  while (bytes.size() >= 8) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const std::size_t length = byte(4) << 8 | byte(5);
    if (byte(1) == 4) stream += bytes.substr(8, length);
    bytes.remove_prefix(std::min(bytes.size(), 8 + length));
  }
  Params params;
  std::size_t at = 0;
  const auto read_length = [&] {
    const auto first = static_cast<unsigned char>(stream[at]);
    if (first < 128) return ++at, std::size_t{first};
    std::size_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(stream[at++]);
    return length & 0x7fffffff;
  };
  while (at < stream.size()) {
    const std::size_t name = read_length(), value = read_length();
    std::string& place = params[stream.substr(at, name)];
    place += (place.empty() ? "" : "|") + stream.substr(at + name, value);
    at += name + value;
  }
  return params;
}

class Fastcgi : public testing::Test {
 protected:
  using Fields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  ~Fastcgi() override {
    if (exchange) {
      exchange->on_transport_lost({Code::kClosed, Party::kClient, 0, "test"});
      exchange.reset();
    }
    EXPECT_TRUE(loop.run_until_quiet());
  }
  // The parameters of a request to this location; empty if no server was asked.
  Params ask(std::string_view location, std::string_view target, Fields fields = {},
             std::string_view authority = "example.org") {
    compiled.emplace(compile(location));
    EXPECT_TRUE(*compiled) << compiled->text();
    if (!*compiled) return {};
    const auto& tree = *compiled->configuration->object<route::Tree>();
    services.emplace(http::Services{.loop = loop,
                                    .turn = static_cast<io::Loop&>(loop).turn(),
                                    .blocks = loop.blocks(),
                                    .clock = loop.clock(),
                                    .sites = tree,
                                    .errors = errors,
                                    .log = request_log,
                                    .counters = counters,
                                    .transforms = {}});
    loop.on_connect([](const sockaddr*, socklen_t) { return 0; });
    exchange = std::make_unique<http::Exchange>(*services, transport, transport.info);
    http::RequestHead& head = exchange->request();
    head.method = http::Method::kGet;
    head.method_text = "GET";
    head.target = target;
    const std::size_t mark = target.find('?');
    head.raw_path = target.substr(0, mark);
    head.has_query = mark != std::string_view::npos;
    if (head.has_query) head.query = target.substr(mark + 1);
    head.authority = authority;
    for (const auto& [name, value] : fields) head.fields.add(exchange->arena(), name, value);
    exchange->start();
    EXPECT_TRUE(loop.run_until_blocked());
    for (int fd = 3; fd < 256; ++fd) {
      if (io::SimPeer* peer = loop.peer_of(fd)) return params_in(peer->arrived());
    }
    return {};
  }

  io::SimLoop loop{io::SimOptions{.seed = 5}};
  std::optional<test::Compiled> compiled;
  std::optional<http::Services> services;
  test::PlainErrors errors;
  test::CountingLog request_log;
  test::NoCounters counters;
  test::FakeTransport transport;
  std::unique_ptr<http::Exchange> exchange;
};

TEST_F(Fastcgi, ParametersAndFields) {
  const Params params =
      ask("location / { fastcgi_pass php; fastcgi_param U $uri; fastcgi_param EMPTY \"\"; "
          "fastcgi_param GONE \"\" if_not_empty; fastcgi_param HTTP_X_OWN mine; }",
          "/a%20b",
          {{"Accept", "*/*"},
           {"X-Own", "theirs"},
           {"Content-Type", "a/b"},
           {"Proxy", "evil"},
           {"Transfer-Encoding", "chunked"},
           {"Accept", "text/html"},
           {"Cookie", "a=1"},
           {"cookie", "b=2"},
           {"Host", "ignored.example"}});
  const Params expected = {{"U", "/a b"},
                           {"EMPTY", ""},
                           {"HTTP_X_OWN", "mine"},
                           {"HTTP_ACCEPT", "*/*, text/html"},
                           {"HTTP_COOKIE", "a=1; b=2"},
                           {"HTTP_HOST", "example.org"}};
  EXPECT_EQ(params, expected);
}

// Case 6.
TEST_F(Fastcgi, ADashedNameWinsOverItsUnderscoreAlias) {
  const Params params = ask("location / { fastcgi_pass php; }", "/",
                            {{"X_Forwarded_For", "forged"},
                             {"X-Forwarded-For", "real"},
                             {"X-Forwarded_For", "forged"},
                             {"Only_Under", "kept"}},
                            "");
  const Params expected = {{"FROM", "http"},
                           {"OTHER", "x"},
                           {"HTTP_X_FORWARDED_FOR", "real"},
                           {"HTTP_ONLY_UNDER", "kept"}};
  EXPECT_EQ(params, expected);
}

TEST_F(Fastcgi, PassRequestHeadersOff) {
  const Params params = ask("location / { fastcgi_pass php; fastcgi_pass_request_headers off; }",
                            "/", {{"Accept", "*/*"}});
  EXPECT_EQ(params, (Params{{"FROM", "http"}, {"OTHER", "x"}}));
}

constexpr std::string_view kSplit =
    "location / { fastcgi_pass php; fastcgi_index index.php; "
    "fastcgi_split_path_info ^(.+?\\.php)(|/.*)$; fastcgi_param S $fastcgi_script_name; "
    "fastcgi_param P $fastcgi_path_info; }";

TEST_F(Fastcgi, SplitPathInfo) {
  Params params = ask(kSplit, "/app/index.php/a/b.php", {}, "");
  EXPECT_EQ(params["S"], "/app/index.php");
  EXPECT_EQ(params["P"], "/a/b.php");
}

TEST_F(Fastcgi, IndexAfterASlash) {
  Params params = ask(kSplit, "/app/", {}, "");
  EXPECT_EQ(params["S"], "/app/index.php");
  EXPECT_EQ(params["P"], "");
}

// Case 15: a line feed in the path does not keep it from being split.
TEST_F(Fastcgi, ALineFeedDoesNotBreakTheSplit) {
  Params params = ask(kSplit, "/index.php/PHP%0Ainfo.php", {}, "");
  EXPECT_EQ(params["S"], "/index.php");
  EXPECT_EQ(params["P"], "/PHP\ninfo.php");
}

TEST_F(Fastcgi, VariablesInPassChooseTheServer) {
  EXPECT_FALSE(ask("location / { fastcgi_pass $arg_to; }", "/?to=php", {}, "").empty());
}
TEST_F(Fastcgi, VariablesInPassMayYieldASocket) {
  EXPECT_FALSE(ask("location ~ ^/(.*)$ { fastcgi_pass unix:/run/$1.sock; }", "/x", {}, "").empty());
}
TEST_F(Fastcgi, ANameAtRunTimeIs502) {
  EXPECT_TRUE(ask("location ~ ^/(.*)$ { fastcgi_pass $1:9000; }", "/example.org", {}, "").empty());
  EXPECT_EQ(errors.statuses, std::vector<std::uint16_t>{502});
}

TEST_F(Fastcgi, ANestedLocationDoesNotInheritThePass) {
  EXPECT_TRUE(
      ask("location / { fastcgi_pass php; location /in { fastcgi_index x; } }", "/in/a", {}, "")
          .empty());
  EXPECT_EQ(errors.statuses, std::vector<std::uint16_t>{404});
}

TEST(FastcgiDirectives, Mistakes) {
  const auto says = [](std::string_view location, std::string_view message) {
    const test::Compiled compiled = compile(location);
    EXPECT_TRUE(compiled.error(message)) << location << "\n" << compiled.text();
  };
  says("location / { fastcgi_pass 127.0.0.1; }", "no port in upstream \"127.0.0.1\"");
  says("location / { fastcgi_pass 9000; }", "no port in upstream \"9000\"");
  says("location / { fastcgi_pass *:9000; }", "invalid host in upstream \"*:9000\"");
  says("location / { fastcgi_bind 9000; fastcgi_pass 127.0.0.1:9000; }",
       "invalid address \"9000\"");
  says("location / { fastcgi_pass php; fastcgi_param A; }", "invalid number of arguments");
  says("location / { fastcgi_pass php; fastcgi_param A b maybe; }", "invalid parameter \"maybe\"");
  says("location / { fastcgi_split_path_info ^(.+)$; }", "must have 2 captures");
  says("location / { fastcgi_next_upstream error sometimes; }", "sometimes");
  says("location / { fastcgi_store on; }", "storing responses as files is not supported");
  says("fastcgi_pass php;", "not allowed here");
}

TEST(FastcgiDirectives, WhatConfigurationsHold) {
  const test::Compiled compiled = compile(
      "location / { fastcgi_pass unix:/run/php/php8.2-fpm.sock; fastcgi_buffers 8 16k; "
      "fastcgi_buffer_size 32k; fastcgi_busy_buffers_size 64k; fastcgi_read_timeout 300; "
      "fastcgi_next_upstream off; fastcgi_ignore_headers Cache-Control Expires Set-Cookie; "
      "fastcgi_hide_header X-Powered-By; fastcgi_pass_header X-Accel-Expires; "
      "fastcgi_intercept_errors on; fastcgi_request_buffering off; fastcgi_buffering off; "
      "fastcgi_temp_path /tmp 1 2; fastcgi_max_temp_file_size 0; fastcgi_keep_conn on; "
      "fastcgi_store off; fastcgi_cache zone; fastcgi_catch_stderr \"PHP Fatal\"; }");
  EXPECT_TRUE(compiled) << compiled.text();
  EXPECT_EQ(compiled.diagnostics.errors(), 0u);
}

}  // namespace
}  // namespace corehttpd::handlers
