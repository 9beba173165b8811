#include "corehttpd/upstream/peers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/compile.h"

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
    const Peer* peer = selector.next(group, now);
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
  EXPECT_EQ(selector.next(servers.group, 0)->name, "a");
  EXPECT_EQ(selector.next(servers.group, 0)->name, "b");
  EXPECT_EQ(selector.next(servers.group, 0)->name, "spare");
  EXPECT_EQ(selector.next(servers.group, 0), nullptr);
  EXPECT_EQ(selector.tried(), 3u);
}

TEST(Peers, AFailedServerIsLeftAloneForFailTimeout) {
  Servers servers({peer("a"), peer("b")});
  PeerSelector selector;
  ASSERT_EQ(selector.next(servers.group, 1000)->name, "a");
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
    while (selector.next(servers.group, now)->name != "a") {
    }
    selector.failed(now);
    selector.release();
  };
  fail_a(1000);
  EXPECT_EQ(servers.states[0].fails, 1u);
  // Long after, it answers: the count begins anew.
  PeerSelector selector;
  while (selector.next(servers.group, 50'000)->name != "a") {
  }
  selector.succeeded(50'000);
  selector.release();
  EXPECT_EQ(servers.states[0].fails, 0u);
}

TEST(Peers, AnOnlyServerIsAlwaysAsked) {
  Servers servers({peer("a")});
  for (int i = 0; i < 5; ++i) {
    PeerSelector selector;
    ASSERT_NE(selector.next(servers.group, 1000), nullptr);
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
  ASSERT_EQ(first.next(servers.group, 0)->name, "small");
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

}  // namespace
}  // namespace corehttpd::upstream
