// What clients see of a connection: framing, order, persistence.
#include "proto/h1/connection.h"

#include <gtest/gtest.h>

#include "unit/proto/h1/site.h"

namespace corehttpd::h1::testing {
namespace {

constexpr std::string_view kGetHello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(H1Connection, IsSmallWhenIdle) { EXPECT_LE(sizeof(Connection), 448u); }

TEST(H1Connection, AnswersAndKeepsAlive) {
  TestSite site;
  auto& peer = site.talk(kGetHello);
  EXPECT_EQ(peer.take(), "HTTP/1.1 200 OK\r\nServer: corehttpd\r\nDate: " +
                             std::string(site.loop.clock().http_date()) +
                             "\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: "
                             "keep-alive\r\n\r\nhello");
  EXPECT_FALSE(peer.ended());
  EXPECT_EQ(site.loop.blocks().in_use(), 0u);
  peer.push(kGetHello);
  site.loop.run_until_blocked();
  std::string text = peer.take();
  EXPECT_EQ(take_answer(text).body, "hello");
  EXPECT_EQ(site.log.lines.size(), 2u);
  EXPECT_EQ(site.counters.now[static_cast<int>(http::Counters::Activity::kWaiting)], 1);
}

TEST(H1Connection, PipelinedRequestsAreAnsweredInOrder) {
  TestSite site;
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += i % 3 == 0   ? "GET /nolength HTTP/1.1\r\nHost: a\r\n\r\n"
            : i % 3 == 1 ? "HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n"
                         : std::string(kGetHello);
  auto& peer = site.talk(text);
  std::string out = peer.take();
  for (int i = 0; i < 50; ++i) {
    const Answer answer = take_answer(out, i % 3 == 1);
    ASSERT_EQ(answer.status, i % 3 == 1 ? 404 : 200) << i;
    EXPECT_EQ(answer.body, i % 3 == 1 ? "" : "hello");
    EXPECT_EQ(answer.has("Transfer-Encoding: chunked"), i % 3 == 0);
  }
  EXPECT_EQ(out, "");
  EXPECT_EQ(site.log.lines.size(), 50u);
}

TEST(H1Connection, AnySplitGivesTheSameAnswers) {
  const std::string text =
      "\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n"
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nwxyzHEAD /hello "
      "HTTP/1.1\r\nHost: a\r\n\r\n"
      "POST /hello HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nzzGET /hello "
      "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  TestSite whole;
  const std::string expected = whole.talk(text).take();
  EXPECT_EQ(whole.log.lines.size(), 5u);
  for (std::size_t i = 1; i < text.size(); ++i) {
    TestSite site;
    auto& peer = site.talk(text.substr(0, i));
    peer.push(text.substr(i));
    site.loop.run_until_blocked();
    ASSERT_EQ(peer.take(), expected) << i;
    EXPECT_TRUE(peer.ended());
  }
}

TEST(H1Connection, ByteByByte) {
  TestSite site;
  auto& peer = site.connect();
  const std::string text =
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + std::string(kGetHello);
  for (char c : text) {
    peer.push({&c, 1});
    site.loop.run_until_blocked();
  }
  const auto answers = take_all(peer.take());
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].body, "abc");
  EXPECT_EQ(answers[1].body, "hello");
}

TEST(H1Connection, Http10) {
  TestSite site;
  auto& closing = site.talk("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_NE(closing.arrived().find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(closing.ended());
  auto& keeping = site.talk("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(keeping.arrived().find("Connection: keep-alive\r\n"), std::string::npos);
  EXPECT_FALSE(keeping.ended());
  // Without a length only the end of the connection ends the body.
  auto& unknown = site.talk("GET /nolength HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(unknown.arrived().find("Transfer-Encoding"), std::string::npos);
  EXPECT_TRUE(unknown.arrived().ends_with("Connection: close\r\n\r\nhello"));
  EXPECT_TRUE(unknown.ended());
}

TEST(H1Connection, PersistenceEnds) {
  TestSite site;
  site.core.keepalive_requests = 2;
  auto& peer = site.talk(std::string(kGetHello) + std::string(kGetHello) + std::string(kGetHello));
  const auto answers = take_all(peer.take());
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(answers[0].has("Connection: keep-alive"));
  EXPECT_TRUE(answers[1].has("Connection: close"));
  site.run_for(site.core.lingering_timeout + 1);  // The third request is unread input.
  EXPECT_TRUE(peer.ended());
}

TEST(H1Connection, KeepaliveTimeoutField) {
  TestSite site;
  site.core.keepalive_header_timeout = 20'000;
  EXPECT_NE(
      site.talk(kGetHello).arrived().find("Connection: keep-alive\r\nKeep-Alive: timeout=20\r\n"),
      std::string::npos);
}

TEST(H1Connection, LargeBodiesWithBackPressure) {
  TestSite site({.seed = 3, .window_bytes = 10'000});
  for (const char* uri : {"/big", "/file"}) {
    auto& peer = site.connect();
    peer.push("GET " + std::string(uri) + " HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kGetHello));
    std::string out;
    while (site.loop.run_until_blocked() && !peer.arrived().empty()) out += peer.take();
    const auto answers = take_all(out);
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_TRUE(answers[0].body ==
                pattern(uri == std::string_view("/big") ? 1'000'000 : 3'000'000));
    EXPECT_EQ(answers[1].body, "hello");
  }
}

TEST(H1Connection, ShortBodyEndsWithoutACleanEnd) {
  TestSite site;
  auto& peer = site.talk("GET /short HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kGetHello));
  EXPECT_TRUE(peer.arrived().ends_with("\r\n\r\nhello"));
  EXPECT_EQ(site.log.lines.size(), 1u);
}

TEST(H1Connection, LongBodyIsCut) {
  TestSite site;
  const auto answers =
      take_all(site.talk("GET /long HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kGetHello)).take());
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].body, "hel");
  EXPECT_EQ(answers[1].body, "hello");
}

TEST(H1Connection, ChunksArriveAsTheyComeAndTrailersLast) {
  TestSite site;
  auto& peer = site.talk("GET /drip?7 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.arrived().ends_with("\r\n\r\n"));
  peer.take();
  site.run_for(100);
  EXPECT_EQ(peer.take(), "11\r\n0123456789abcdefX\r\n");
  site.run_for(100);
  EXPECT_EQ(peer.take(), "11\r\n0123456789abcdefX\r\n");
  site.run_for(100);
  EXPECT_EQ(peer.take(), "0\r\nX-Sum: 7\r\n\r\n");
  EXPECT_FALSE(peer.ended());
}

TEST(H1Connection, FailingSourceEndsWithoutACleanEnd) {
  TestSite site;
  auto& peer = site.talk("GET /break HTTP/1.1\r\nHost: a\r\n\r\n");
  site.run_for(1000);
  EXPECT_TRUE(peer.arrived().ends_with("11\r\n0123456789abcdefX\r\n"));
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(site.log.lines.size(), 1u);
}

TEST(H1Connection, LocationBecomesAbsolute) {
  TestSite site;
  EXPECT_NE(site.talk("GET /redirect HTTP/1.1\r\nHost: Name.example:80\r\n\r\n")
                .arrived()
                .find("Location: http://name.example:8080/there\r\n"),
            std::string::npos);
  site.core.port_in_redirect = false;
  site.core.server_name_in_redirect = true;
  EXPECT_NE(site.talk("GET /redirect HTTP/1.1\r\nHost: a\r\n\r\n")
                .arrived()
                .find("Location: http://example.org/there\r\n"),
            std::string::npos);
  site.core.server_name_in_redirect = false;
  EXPECT_NE(site.talk("GET /redirect HTTP/1.0\r\n\r\n")
                .arrived()
                .find("Location: http://127.0.0.1/there\r\n"),
            std::string::npos);
  site.core.absolute_redirect = false;
  EXPECT_NE(
      site.talk("GET /redirect HTTP/1.1\r\nHost: a\r\n\r\n").arrived().find("Location: /there\r\n"),
      std::string::npos);
}

TEST(H1Connection, ClientThatShutsDownItsSideGetsItsAnswers) {
  TestSite site;
  auto& peer = site.connect();
  peer.push("GET /drip HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kGetHello));
  peer.finish();
  site.loop.run_until_blocked();
  site.run_for(1000);
  const auto answers = take_all(peer.take());
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].body.size(), 34u);
  EXPECT_EQ(answers[1].body, "hello");
  EXPECT_TRUE(peer.ended());
}

TEST(H1Connection, DrainingEndsConnections) {
  TestSite site;
  auto& idle = site.talk(kGetHello);
  auto& busy = site.talk("GET /drip HTTP/1.1\r\nHost: a\r\n\r\n");
  auto& late = site.talk(kGetHello);
  site.services.draining = true;
  site.acceptors->connections().drain();
  late.take();
  late.push(kGetHello);
  site.run_for(1000);
  EXPECT_NE(late.arrived().find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(late.ended());
  EXPECT_TRUE(busy.arrived().ends_with("0\r\n\r\n"));
  EXPECT_FALSE(idle.ended());
  site.run_for(9'100);
  EXPECT_TRUE(idle.ended());
  EXPECT_FALSE(busy.ended());  // Idle since its answer only.
  site.run_for(1'000);
  EXPECT_TRUE(busy.ended());
  EXPECT_TRUE(site.acceptors->connections().empty());
}

TEST(H1Connection, DrainingKeepsToKeepaliveMinTimeout) {
  TestSite site;
  site.core.keepalive_min_timeout = 20'000;
  auto& idle = site.talk(kGetHello);
  site.services.draining = true;
  site.acceptors->connections().drain();
  site.run_for(19'000);
  EXPECT_FALSE(idle.ended());
  site.run_for(1'100);
  EXPECT_TRUE(idle.ended());
}

TEST(H1Connection, ResetReachesTheExchange) {
  TestSite site;
  auto& peer = site.talk("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(site.hang.aborted, 0);
  peer.reset();
  site.loop.run_until_blocked();
  EXPECT_EQ(site.hang.aborted, 1);
  ASSERT_EQ(site.log.lines.size(), 1u);
  EXPECT_EQ(site.log.lines[0], "/hang 499");
}

TEST(H1Connection, ResetsAnywhere) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    TestSite site(
        {.seed = seed, .resets_per_mille = 30, .clock_leaps_per_mille = 5, .window_bytes = 5'000});
    std::vector<io::SimPeer*> peers;
    const std::string requests[] = {
        std::string(kGetHello),
        "GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /drip HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /break HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + pattern(20'000),
        "POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n"};
    for (int i = 0; i < 6; ++i) {
      auto& peer = *peers.emplace_back(&site.connect());
      for (int j = 0; j < 4; ++j) peer.push(requests[site.loop.random(std::size(requests))]);
      if (site.loop.random(3) == 0) peer.finish();
    }
    for (int i = 0; i < 2000; ++i) {
      site.loop.run_once();
      if (site.loop.random(20) == 0) peers[site.loop.random(peers.size())]->take();
      if (site.loop.random(1000) == 0) peers[site.loop.random(peers.size())]->reset();
    }
    // The destructor checks that all is gone and every request was logged once.
  }
}

}  // namespace
}  // namespace corehttpd::h1::testing
