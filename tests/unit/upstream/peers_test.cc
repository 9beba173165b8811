#include "corehttpd/upstream/peers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "corehttpd/io/sim_loop.h"
#include "support/compile.h"
#include "upstream/backends.h"
#include "upstream/php_fpm.h"

namespace corehttpd::upstream {
namespace {

struct Servers {
  std::vector<Peer> peers;
  std::vector<PeerState> states;
  Group group;
  explicit Servers(std::vector<Peer> from) : peers(std::move(from)), states(peers.size()) {
    for (std::size_t i = 0; i < peers.size(); ++i) states[i].effective_weight = peers[i].weight;
    group.peers = peers;
    group.states = states;
  }
  // The name that one new request gets.
  std::string pick(Milliseconds now = 0) {
    PeerSelector selector;
    selector.begin(group, nullptr, 0);
    const Peer* peer = selector.next(now);
    selector.release();
    return peer == nullptr ? "-" : std::string(peer->name);
  }
};

Peer peer(std::string_view name, std::uint32_t weight = 1) {
  Peer p;
  p.name = name;
  p.weight = weight;
  return p;
}

TEST(Peers, WeightsAreSmooth) {
  Servers servers({peer("a", 5), peer("b"), peer("c")});
  std::string order;
  for (int i = 0; i < 14; ++i) order += servers.pick();
  EXPECT_EQ(order, "aabacaaaabacaa");
}

TEST(Peers, ARequestAsksEachServerOnceAndBackupsLast) {
  Peer spare = peer("spare");
  spare.backup = true;
  Servers servers({peer("a"), spare, peer("b")});
  PeerSelector selector;
  selector.begin(servers.group, nullptr, 0);
  EXPECT_EQ(selector.tries_left(), 3u);
  EXPECT_EQ(selector.next(0)->name, "a");
  EXPECT_EQ(selector.next(0)->name, "b");
  EXPECT_EQ(selector.next(0)->name, "spare");
  EXPECT_EQ(selector.next(0), nullptr);
  EXPECT_EQ(selector.tries_left(), 0u);
}

TEST(Peers, AFailedServerIsLeftAloneForFailTimeout) {
  Servers servers({peer("a"), peer("b")});
  PeerSelector selector;
  selector.begin(servers.group, nullptr, 0);
  ASSERT_EQ(selector.next(1000)->name, "a");
  selector.failed(1000);
  selector.release();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(servers.pick(11'000), "b");
  std::map<std::string, int> picks;
  for (int i = 0; i < 10; ++i) ++picks[servers.pick(11'001)];
  EXPECT_GT(picks["a"], 0);  // Due again.
}

TEST(Peers, OneAnswerAfterThatClearsIt) {
  Peer twice = peer("a");
  twice.max_fails = 2;
  Servers servers({twice, peer("b")});
  const auto fail_a = [&](Milliseconds now) {
    PeerSelector selector;
    selector.begin(servers.group, nullptr, 0);
    while (selector.next(now)->name != "a") {
    }
    selector.failed(now);
    selector.release();
  };
  fail_a(1000);
  EXPECT_EQ(servers.states[0].fails, 1u);
  // Long after, it answers: the count begins anew.
  PeerSelector selector;
  selector.begin(servers.group, nullptr, 0);
  while (selector.next(50'000)->name != "a") {
  }
  selector.succeeded();
  selector.release();
  EXPECT_EQ(servers.states[0].fails, 0u);
}

TEST(Peers, AnOnlyServerIsAlwaysAsked) {
  Servers servers({peer("a")});
  for (int i = 0; i < 5; ++i) {
    PeerSelector selector;
    selector.begin(servers.group, nullptr, 0);
    ASSERT_NE(selector.next(1000), nullptr);
    selector.failed(1000);
  }
  EXPECT_EQ(servers.pick(1000), "a");
}

TEST(Peers, DownAndFullServersAreSkipped) {
  Peer down = peer("down");
  down.down = true;
  Peer small = peer("small");
  small.max_conns = 1;
  Servers servers({down, small});
  PeerSelector first;
  first.begin(servers.group, nullptr, 0);
  ASSERT_EQ(first.next(0)->name, "small");
  EXPECT_EQ(servers.pick(), "-");
  first.release();
  EXPECT_EQ(servers.pick(), "small");
}

test::Compiled compile(std::string_view text) {
  const conf::Module* modules[] = {&upstream_module()};
  return test::compile(text, modules);
}

// The blocks stand in http, which route's module opens; here the upstream module is alone.
struct HttpSettings {};
constexpr conf::Directive kHttp[] = {{.name = "http",
                                      .contexts = conf::Context::kMain,
                                      .kind = conf::Kind::kBlock,
                                      .arity = conf::exactly(0),
                                      .set = [](const conf::Setting&) { return true; },
                                      .doc = "For the test.",
                                      .opens = conf::Context::kHttp}};

test::Compiled compile_http(std::string_view text) {
  static constexpr conf::Module kModule = conf::module<HttpSettings>("test", kHttp);
  const conf::Module* modules[] = {&kModule, &upstream_module()};
  return test::compile("http {" + std::string(text) + "}", modules);
}

TEST(UpstreamBlock, ServersAndTheirParameters) {
  const auto compiled = compile_http(
      "upstream php { server unix:/run/a.sock weight=3 max_fails=2 fail_timeout=30s; "
      "server 127.0.0.1:9000 backup max_conns=7; server 192.0.2.1 down; }");
  ASSERT_TRUE(compiled) << compiled.text();
  const Group* group = compiled.configuration->object<Groups>()->find("PHP");
  ASSERT_NE(group, nullptr);
  ASSERT_EQ(group->peers.size(), 3u);
  EXPECT_EQ(group->peers[0].name, "unix:/run/a.sock");
  EXPECT_EQ(group->peers[0].weight, 3u);
  EXPECT_EQ(group->peers[0].max_fails, 2u);
  EXPECT_EQ(group->peers[0].fail_timeout, 30'000);
  EXPECT_EQ(group->states[0].effective_weight, 3);
  EXPECT_EQ(group->peers[1].name, "127.0.0.1:9000");
  EXPECT_TRUE(group->peers[1].backup);
  EXPECT_EQ(group->peers[1].max_conns, 7u);
  EXPECT_EQ(group->peers[2].name, "192.0.2.1:80");
  EXPECT_TRUE(group->peers[2].down);
}

TEST(UpstreamBlock, Mistakes) {
  EXPECT_TRUE(compile_http("upstream a { }").error("no servers are inside upstream \"a\""));
  EXPECT_TRUE(compile_http("upstream a { server 127.0.0.1; } upstream a { server 127.0.0.1; }")
                  .error("duplicate upstream \"a\""));
  EXPECT_TRUE(compile_http("upstream a { server 127.0.0.1 wieght=2; }")
                  .error("invalid parameter \"wieght=2\""));
  EXPECT_TRUE(compile_http("upstream a { server 127.0.0.1 weight=0; }")
                  .error("invalid parameter \"weight=0\""));
  EXPECT_TRUE(compile_http("upstream a { server 127.0.0.1:99999; }")
                  .error("invalid port in upstream \"127.0.0.1:99999\""));
  EXPECT_TRUE(
      compile_http("upstream a { server unix:; }").error("no path in the unix domain socket"));
  EXPECT_TRUE(compile("upstream a { server 127.0.0.1; }").error("not allowed here"));
}

TEST(UpstreamBlock, MethodsZonesAndKeepalive) {
  const auto compiled = compile_http(
      "upstream a { least_conn; zone z 64k; server 192.0.2.1; keepalive 8; keepalive_requests 5; "
      "keepalive_time 1m; keepalive_timeout 3s; } "
      "upstream b { ip_hash; zone z; server 192.0.2.1; server 192.0.2.2 max_conns=auto; } "
      "upstream c { random two; server 192.0.2.1 max_conns=3; queue 7 timeout=2s; }");
  ASSERT_TRUE(compiled) << compiled.text();
  const auto& groups = *compiled.configuration->object<Groups>();
  const Group& a = *groups.find("a");
  EXPECT_EQ(a.balance, Balance::kLeastConn);
  EXPECT_EQ(a.keepalive.connections, 8u);
  EXPECT_EQ(a.keepalive.requests, 5u);
  EXPECT_EQ(a.keepalive.time, 60'000);
  EXPECT_EQ(a.keepalive.timeout, 3'000);
  EXPECT_NE(a.lock, nullptr);
  EXPECT_EQ(a.states[0].effective_weight, 1);
  EXPECT_EQ(groups.find("b")->balance, Balance::kIpHash);
  EXPECT_TRUE(groups.find("b")->peers[1].automatic);
  const Group& c = *groups.find("c");
  EXPECT_EQ(c.balance, Balance::kRandomTwo);
  EXPECT_EQ(c.queue_max, 7u);
  EXPECT_EQ(c.queue_timeout, 2'000);
  ASSERT_NE(c.peers[0].backend, nullptr);
  EXPECT_EQ(c.peers[0].backend->capacity(), 3u);
}

TEST(UpstreamBlock, MistakesOfOtherDirectives) {
  const struct {
    std::string_view text, message;
  } cases[] = {
      {"ip_hash; server 192.0.2.1; server 192.0.2.2 backup;",
       "balancing method does not support parameter \"backup\""},
      {"server 192.0.2.1 backup;", "no servers are inside upstream \"u\""},
      {"server 192.0.2.1 slow_start=5s;", "invalid parameter \"slow_start=5s\""},
      {"server 192.0.2.1; hash $x constant;", "invalid parameter \"constant\""},
      {"server 192.0.2.1; random three;", "invalid parameter \"three\""},
      {"server 192.0.2.1; keepalive 0;", "invalid value \"0\" in \"keepalive\" directive"},
      {"server 192.0.2.1; zone z 4k;", "zone \"z\" is too small"},
      {"server 192.0.2.1; zone z much;", "invalid zone size \"much\""},
      {"server 192.0.2.1; queue 4 timeout=0;", "invalid parameter \"timeout=0\""},
  };
  for (const auto& one : cases) {
    const auto compiled = compile_http("upstream u { " + std::string(one.text) + " }");
    EXPECT_TRUE(compiled.error(one.message)) << one.text << compiled.text();
  }
  EXPECT_TRUE(compile_http("upstream u { least_conn; ip_hash; server 192.0.2.1; }")
                  .warning("load balancing method redefined"));
}

TEST(FpmPools, WhatCountsOfTheirFiles) {
  const auto pools = parse_fpm_pools(
      "; a comment\n[global]\npid = /run/x\n[www]\nlisten = /run/php/$pool.sock ; why\n"
      "pm = ondemand\r\npm.max_children=  12\npm.status_path = /fpm\n[none]\nlisten = "
      "/run/none.sock\n"
      "[port]\npm = static\npm.max_children = 3\nlisten = 9000\n"
      "[local]\npm.max_children = 4\nlisten = '127.0.0.1:9001'\n[bad]\npm.max_children = x\n"
      "listen = /run/bad.sock\n");
  ASSERT_EQ(pools.size(), 3u);
  EXPECT_EQ(pools[0].address.to_string(), "unix:/run/php/www.sock");
  EXPECT_EQ(pools[0].children_max, 12u);
  EXPECT_TRUE(pools[0].on_demand);
  EXPECT_EQ(pools[0].status_path, "/fpm");
  EXPECT_EQ(pools[1].status_path, "");
  EXPECT_EQ(pools[1].address.port(), 9000);
  EXPECT_TRUE(pools[1].everywhere);
  EXPECT_FALSE(pools[1].on_demand);
  EXPECT_EQ(pools[2].address.to_string(), "127.0.0.1:9001");
  EXPECT_FALSE(pools[2].everywhere);
}

// What one worker finds when another one has died in its place.
TEST(SharedState, APlaceOutlivesNobody) {
  auto compiled = compile_http("upstream u { server 192.0.2.1 max_conns=1; queue 1; }");
  ASSERT_TRUE(compiled) << compiled.text();
  Backend& backend = *compiled.configuration->object<Groups>()->find("u")->peers[0].backend;
  struct NoWaiter final : Backend::Waiter {
    void on_place(OriginConnection*) override {}
  };
  const auto acquire = [&] {
    io::SimLoop loop{io::SimOptions{.seed = 1}};
    NoWaiter waiter;
    OriginConnection* reused = nullptr;
    return backend.acquire(loop, waiter, 0, false, reused);
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(acquire() == Backend::Place::kOpen ? 0 : 1);
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const pid_t second = ::fork();
  if (second == 0) {
    const bool first = acquire() == Backend::Place::kOpen;  // What the dead one had is free again.
    ::_exit(first && backend.in_use() == 1 ? 0 : 1);
  }
  ASSERT_EQ(::waitpid(second, &status, 0), second);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace corehttpd::upstream
