// Which server answers: addresses and names.
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/sites.h"

namespace corehttpd::route {
namespace {

using test::TestRequest;
using test::TestSites;

std::string server(std::string_view directives, std::string_view answer) {
  return fmt::format("server {{ {} location / {{ answer \"{}\"; }} }} ", directives, answer);
}

TestSites http(std::string_view servers) {
  return TestSites(fmt::format("http {{ {} }}", servers));
}

// Asks the listener with that address, as if accepted on local.
std::string ask(TestSites& sites, std::string_view listener, std::string_view local,
                std::string_view host) {
  for (Listener& one : sites.tree().listeners()) {
    if (one.endpoint.text != listener) continue;
    TestRequest request(*sites.services, "GET", "/", {{"Host", host}});
    request.transport.info.endpoint = &one.endpoint;
    request.transport.info.local = IpAddress::parse(local);
    request.transport.info.local.port = one.endpoint.address.port;
    return sites.run(request);
  }
  return "no listener";
}

std::vector<std::string> listeners(TestSites& sites) {
  std::vector<std::string> texts;
  for (const Listener& one : sites.tree().listeners()) texts.emplace_back(one.endpoint.text);
  return texts;
}

TEST(ServerName, OrderOfPrecedence) {
  auto sites = http(server("listen 80;", "default") +
                    server("listen 80; server_name ~^(?<sub>.+)\\.re\\.org$;", "first $sub") +
                    server("listen 80; server_name ~org$;", "second") +
                    server("listen 80; server_name www.*;", "trailing") +
                    server("listen 80; server_name *.example.org;", "leading") +
                    server("listen 80; server_name www.example.org;", "exact") +
                    server("listen 80; server_name .dot.net;", "dot"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.host("www.example.org"), "200 exact");
  EXPECT_EQ(sites.host("WWW.Example.ORG:8080"), "200 exact");
  EXPECT_EQ(sites.host("www.example.org."), "200 exact");
  EXPECT_EQ(sites.host("a.example.org"), "200 leading");
  EXPECT_EQ(sites.host("www.else.com"), "200 trailing");
  EXPECT_EQ(sites.host("x.re.org"), "200 first x");
  EXPECT_EQ(sites.host("some.org"), "200 second");
  EXPECT_EQ(sites.host("dot.net"), "200 dot");
  EXPECT_EQ(sites.host("a.dot.net"), "200 dot");
  EXPECT_EQ(sites.host("nothing"), "200 default");
}

TEST(ServerName, TheEmptyNameTakesRequestsWithoutHost) {
  auto sites = http(server("listen 80; server_name a;", "a") +
                    server("listen 80; server_name \"\";", "none") +
                    server("listen 80; server_name b;", "b"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.get("/", {}), "200 none");
  EXPECT_EQ(sites.host("b"), "200 b");
  EXPECT_EQ(sites.host("c"), "200 a");
}

TEST(ServerName, CatchAllUnderscoreIsANameLikeAnother) {
  auto sites = http(server("listen 80; server_name a;", "a") +
                    server("listen 80 default_server; server_name _;", "catch"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.host("a"), "200 a");
  EXPECT_EQ(sites.host("x"), "200 catch");
}

TEST(ServerName, OneServerWithARegexStillSetsItsCaptures) {
  auto sites = http(server("listen 80; server_name ~^(?<d>.+)\\.org$;", "[$d]"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.host("x.org"), "200 [x]");
  EXPECT_EQ(sites.host("x.com"), "200 []");
}

TEST(ServerName, FirstNameIsTheVariable) {
  auto sites = http(server("listen 80; server_name .Example.org b;", "$server_name"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.host("b"), "200 example.org");
}

TEST(ServerName, ConflictsAreWarningsAndTheFirstWins) {
  auto sites =
      http(server("listen 80; server_name a b;", "1") + server("listen 80; server_name B;", "2"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_TRUE(sites.compiled.warning("conflicting server name \"b\" on 0.0.0.0:80, ignored"));
  EXPECT_EQ(sites.host("b"), "200 1");
}

TEST(ServerName, Errors) {
  EXPECT_TRUE(http("server { server_name ~; }").compiled.error("empty regex in server name \"~\""));
  EXPECT_TRUE(http("server { server_name a.*.b; }")
                  .compiled.error("invalid server name or wildcard \"a.*.b\""));
  EXPECT_TRUE(http("server { server_name ~(; }").compiled.error("pcre2_compile() failed"));
  EXPECT_TRUE(http("server { server_name http://a; }").compiled.warning("suspicious symbols"));
}

TEST(Listen, WithoutOneTheUsualPort) {
  auto sites = http("server { }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(listeners(sites),
            std::vector<std::string>{::geteuid() == 0 ? "0.0.0.0:80" : "0.0.0.0:8000"});
}

TEST(Listen, Forms) {
  auto sites = http(
      "server { listen 8080; listen 127.0.0.1; listen *:81; listen [::]:82; listen [::1]:83 "
      "ipv6only=off; "
      "listen unix:/run/x.sock; listen localhost:84; listen 90-91; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  const auto all = listeners(sites);
  ASSERT_EQ(all.size(), 9u);
  EXPECT_EQ(all[0], "0.0.0.0:8080");
  EXPECT_EQ(all[1], "127.0.0.1:80");
  EXPECT_EQ(all[2], "0.0.0.0:81");
  EXPECT_EQ(all[3], "[::]:82");
  EXPECT_EQ(all[4], "[::1]:83");
  EXPECT_EQ(all[5], "unix:/run/x.sock");
  EXPECT_TRUE(all[6] == "127.0.0.1:84" || all[6] == "[::1]:84") << all[6];
  EXPECT_EQ(all[7], "0.0.0.0:90");
  EXPECT_EQ(all[8], "0.0.0.0:91");
  const auto made = sites.tree().listeners();
  EXPECT_TRUE(made[3].options.ipv6_only);
  EXPECT_FALSE(made[4].options.ipv6_only);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i].endpoint.index, i);
}

TEST(Listen, KeepAlive) {
  using KeepAlive = io::ListenOptions::KeepAlive;
  const auto keep_alive = [](const char* value) {
    auto sites = http(std::string("server { listen 80 so_keepalive=") + value + "; }");
    return sites.compiled ? sites.tree().listeners()[0].options.keep_alive : KeepAlive::kSystem;
  };
  EXPECT_EQ(keep_alive("on"), KeepAlive::kOn);
  EXPECT_EQ(keep_alive("off"), KeepAlive::kOff);
  EXPECT_EQ(keep_alive("::5"), KeepAlive::kOn);
  for (const char* bad : {"::", "maybe", "1m", "1m:2", "x::", "::x", "::200"})
    EXPECT_EQ(keep_alive(bad), KeepAlive::kSystem) << bad;
}

TEST(Listen, Options) {
  auto sites = http(
      "server { listen 80 backlog=511 rcvbuf=64k sndbuf=1m reuseport deferred fastopen=16 "
      "so_keepalive=30m::10 setfib=1; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  const io::ListenOptions& options = sites.tree().listeners()[0].options;
  EXPECT_EQ(options.backlog, 511);
  EXPECT_EQ(options.receive_buffer, 65536);
  EXPECT_EQ(options.send_buffer, 1048576);
  EXPECT_TRUE(options.reuse_port);
  EXPECT_EQ(options.defer_seconds, 60);
  EXPECT_EQ(options.fast_open, 16);
  EXPECT_EQ(options.keep_alive, io::ListenOptions::KeepAlive::kOn);
  EXPECT_EQ(options.keep_idle_seconds, 1800);
  EXPECT_EQ(options.keep_interval_seconds, 0);
  EXPECT_EQ(options.keep_probes, 10);
  EXPECT_TRUE(sites.compiled.notice("setfib"));
}

TEST(Listen, ServersShareAnAddress) {
  auto sites = http(server("listen 80; server_name a;", "a") +
                    server("listen 80; listen 81; server_name b;", "b"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(listeners(sites), (std::vector<std::string>{"0.0.0.0:80", "0.0.0.0:81"}));
  EXPECT_EQ(ask(sites, "0.0.0.0:80", "10.0.0.1", "b"), "200 b");
  EXPECT_EQ(ask(sites, "0.0.0.0:80", "10.0.0.1", "x"), "200 a");
  EXPECT_EQ(ask(sites, "0.0.0.0:81", "10.0.0.1", "a"), "200 b");
}

TEST(Listen, ASpecificAddressSharesTheWildcardsSocket) {
  auto sites = http(server("listen 127.0.0.1:80; server_name a;", "local") +
                    server("listen 80; server_name a;", "any"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(listeners(sites), std::vector<std::string>{"0.0.0.0:80"});
  EXPECT_EQ(ask(sites, "0.0.0.0:80", "127.0.0.1", "a"), "200 local");
  EXPECT_EQ(ask(sites, "0.0.0.0:80", "10.0.0.1", "a"), "200 any");
}

TEST(Listen, BindGivesItASocketOfItsOwn) {
  auto sites = http(server("listen 127.0.0.1:80 bind;", "local") + server("listen 80;", "any"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(listeners(sites), (std::vector<std::string>{"127.0.0.1:80", "0.0.0.0:80"}));
}

TEST(Listen, DefaultServerOfEachAddress) {
  auto sites = http(server("listen 80; listen 81 default_server; server_name a;", "a") +
                    server("listen 80 default_server; listen 81; server_name b;", "b"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(ask(sites, "0.0.0.0:80", "10.0.0.1", "x"), "200 b");
  EXPECT_EQ(ask(sites, "0.0.0.0:81", "10.0.0.1", "x"), "200 a");
  EXPECT_EQ(sites.tree().default_site(sites.tree().listeners()[0].endpoint).name, "b");
}

TEST(Listen, TlsHoldsForAllOfAnAddress) {
  auto sites = http(server("listen 80; server_name a;", "a") +
                    server("listen 443 ssl; server_name b;", "b") +
                    server("listen 443; server_name c;", "c"));
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_FALSE(sites.tree().listeners()[0].endpoint.tls);
  EXPECT_TRUE(sites.tree().listeners()[1].endpoint.tls);
  // Two addresses on one socket, of which one is in clear.
  auto shared = http("server { listen 443; } server { listen 127.0.0.1:443 ssl; }");
  ASSERT_TRUE(shared.compiled) << shared.compiled.text();
  EXPECT_EQ(listeners(shared), std::vector<std::string>{"0.0.0.0:443"});
  const http::Endpoint& endpoint = shared.tree().listeners()[0].endpoint;
  EXPECT_FALSE(endpoint.tls);
  ASSERT_EQ(endpoint.tls_exceptions.size(), 1u);
}

TEST(Listen, SitesByTheNameOfAHello) {
  auto sites = http(
      "server { listen 443 ssl; server_name a; } "
      "server { listen 443 ssl; server_name *.b ~^c[0-9]$; http2 off; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  const http::Endpoint& endpoint = sites.tree().listeners()[0].endpoint;
  const auto name = [&](std::string_view asked) {
    return sites.tree().site_by_name(endpoint, endpoint.address, asked).name;
  };
  EXPECT_EQ(name("a"), "a");
  EXPECT_EQ(name("x.b"), "*.b");
  EXPECT_EQ(name("c1"), "*.b");
  EXPECT_EQ(name("c"), "a");
  EXPECT_EQ(name(""), "a");
  EXPECT_FALSE(sites.tree().site_by_name(endpoint, endpoint.address, "x.b").http2);
}

TEST(Listen, Http2OfTheDefaultServer) {
  auto sites = http("server { listen 80; } server { listen 81; http2 off; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_TRUE(sites.tree().listeners()[0].endpoint.http2);
  EXPECT_FALSE(sites.tree().listeners()[1].endpoint.http2);
  EXPECT_TRUE(
      http("server { listen 80 http2; }").compiled.warning("is deprecated, use the \"http2\""));
}

TEST(Listen, ProxyProtocolHoldsForTheAddress) {
  auto sites = http(
      "server { listen 80; listen 127.0.0.1:80 proxy_protocol; listen 81 proxy_protocol; "
      "listen 127.0.0.1:81; listen 127.0.0.2:81 proxy_protocol; } server { listen 127.0.0.1:80; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  const auto listeners = sites.tree().listeners();
  ASSERT_EQ(listeners.size(), 2u);
  EXPECT_FALSE(listeners[0].endpoint.proxy_protocol);
  EXPECT_TRUE(listeners[1].endpoint.proxy_protocol);
  for (const auto& listener : listeners) {
    ASSERT_EQ(listener.endpoint.proxy_protocol_exceptions.size(), 1u);
    IpAddress exception = listener.endpoint.proxy_protocol_exceptions[0];
    exception.port = 0;
    EXPECT_EQ(exception, IpAddress::parse("127.0.0.1"));
  }
}

TEST(Listen, Errors) {
  const auto error = [](std::string_view text, std::string_view message) {
    const auto sites = http(text);
    EXPECT_TRUE(sites.compiled.error(message)) << sites.compiled.text();
  };
  error("server { listen 80; listen *:80; }", "a duplicate listen 0.0.0.0:80");
  error("server { listen 80 default_server; } server { listen *:80 default_server; }",
        "a duplicate default server for 0.0.0.0:80");
  error("server { listen 80 backlog=1; } server { listen 80 backlog=2; }",
        "duplicate listen options for 0.0.0.0:80");
  error("server { listen 80 nonsense; }", "invalid parameter \"nonsense\"");
  error("server { listen 80 quic proxy_protocol; }", "incompatible with \"quic\"");
  error("server { listen 80 ipv6only=on; }", "ipv6only is not supported on addr \"0.0.0.0:80\"");
  error("server { listen 80 backlog=x; }", "invalid backlog \"backlog=x\"");
  error("server { listen 99999; }", "invalid port in \"99999\" of the \"listen\" directive");
  error("server { listen [::1:80; }", "of the \"listen\" directive");
}

TEST(Sites, AllOfThem) {
  auto sites = http("server { server_name a; } server { server_name b; }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  ASSERT_EQ(sites.tree().sites().size(), 2u);
  EXPECT_EQ(sites.tree().sites()[1]->name, "b");
}

TEST(Sites, AreKnownByNamesAndAddresses) {
  const TestSites sites(
      "http { server { listen 127.0.0.1:81; listen [::1]:82 ssl; server_name .a b; } "
      "server { listen 127.0.0.1:83; } }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  const auto& all = sites.compiled.configuration->sites().all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "a");
  ASSERT_EQ(all[0].addresses.size(), 2u);
  EXPECT_EQ(all[0].addresses[0], "127.0.0.1:81");
  EXPECT_EQ(all[0].addresses[1], "[::1]:82");
  ASSERT_EQ(all[0].names.size(), 2u);
  EXPECT_EQ(all[0].names[1], "b");
  EXPECT_GT(all[0].tls_at.line, 0u);
  EXPECT_EQ(all[1].name, "127.0.0.1:83");
  EXPECT_EQ(all[1].tls_at.line, 0u);
}

TEST(Sites, ALocationIsFoundWithoutARequest) {
  TestSites sites(
      "http { server { listen 127.0.0.1:81; location / { } location ^~ /static/ { } "
      "location ~ /\\. { } location = /x { } } server { listen 127.0.0.1:82; } }");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  const auto name = [&](std::string_view uri) {
    return sites.tree().locate(*sites.tree().sites()[0], uri)->name;
  };
  EXPECT_EQ(name("/a"), "/");
  EXPECT_EQ(name("/.env"), "/\\.");
  EXPECT_EQ(name("/static/.env"), "/static/");
  EXPECT_EQ(name("/x"), "/x");
  EXPECT_EQ(sites.tree().locate(*sites.tree().sites()[1], "/a"), nullptr);
}

TEST(Sites, NoneWithoutHttp) {
  TestSites sites("");
  ASSERT_TRUE(sites.compiled) << sites.compiled.text();
  EXPECT_EQ(sites.compiled.configuration->object<Tree>(), nullptr);
  TestSites empty("http { }");
  ASSERT_TRUE(empty.compiled) << empty.compiled.text();
  EXPECT_TRUE(empty.tree().listeners().empty());
  EXPECT_TRUE(empty.tree().sites().empty());
}

}  // namespace
}  // namespace corehttpd::route
