// Refusals, request bodies, waiting times, and what becomes of bytes that nobody wants.
#include <gtest/gtest.h>

#include "unit/proto/h1/site.h"

namespace corehttpd::h1::testing {
namespace {

constexpr std::string_view kGetHello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(H1Ingress, RefusalsCloseAndNothingAfterThemIsRead) {
  struct {
    std::string head;
    int status;
  } cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(9000, 'x') + "\r\n\r\n", 494},
      {"\x16\x03\x01 garbage", 400},
      {"GET /\r\n", 400},
  };
  for (const auto& one : cases) {
    TestSite site;
    auto& peer = site.talk(one.head + std::string(kGetHello));
    ASSERT_EQ(site.errors.statuses,
              std::vector<std::uint16_t>{static_cast<std::uint16_t>(one.status)})
        << one.head;
    EXPECT_EQ(site.counters.requests, 1);
    EXPECT_NE(peer.arrived().find("Connection: close\r\n"), std::string::npos);
    // Our side is shut down at once; the rest is read past for a while, so that no reset destroys
    // the answer.
    EXPECT_TRUE(peer.ended());
    EXPECT_EQ(site.counters.closed, 0);
    peer.finish();
    site.loop.run_until_blocked();
    EXPECT_EQ(site.counters.closed, 1);
  }
}

TEST(H1Ingress, EchoesBodies) {
  TestSite site;
  const std::string body = pattern(300'000);
  auto& peer = site.talk("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + body);
  std::string out;
  while (site.loop.run_until_blocked() && !peer.arrived().empty()) out += peer.take();
  EXPECT_TRUE(take_answer(out).body == body);
}

TEST(H1Ingress, ChunkedBodyOverTheLimit) {
  TestSite site;
  site.core.client_max_body_size = 10;
  auto& peer = site.talk(
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n");
  EXPECT_TRUE(peer.arrived().starts_with("HTTP/1.1 413 "));
}

TEST(H1Ingress, MalformedChunkIs400AndClose) {
  TestSite site;
  auto& peer = site.talk(
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n" +
      std::string(kGetHello));
  const auto answers = take_all(peer.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 400);
  EXPECT_TRUE(answers[0].has("Connection: close"));
  EXPECT_TRUE(peer.ended());
}

TEST(H1Ingress, UnwantedBodyIsReadPast) {
  TestSite site;
  const auto answers =
      take_all(site.talk("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" +
                         pattern(100'000) + std::string(kGetHello))
                   .take());
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(answers[0].has("Connection: keep-alive"));
  EXPECT_EQ(answers[1].body, "hello");
}

TEST(H1Ingress, UnwantedBodyThatDoesNotComeEndsTheConnection) {
  TestSite site;
  auto& peer = site.talk("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(peer.arrived().ends_with("hello"));
  site.run_for(site.core.lingering_timeout - 10);
  EXPECT_FALSE(peer.ended());
  site.run_for(20);
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(site.log.lines, std::vector<std::string>{"/hello 200"});
}

TEST(H1Ingress, LingeringTimeBoundsADripOfUnwantedBytes) {
  TestSite site;
  auto& peer = site.talk("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc");
  for (Milliseconds time = 0; time < site.core.lingering_time + 1000; time += 1000) {
    peer.push("x");
    site.run_for(1000);
  }
  EXPECT_TRUE(peer.ended());
}

TEST(H1Ingress, ContinueIsSentWhenTheBodyIsWanted) {
  TestSite site;
  auto& peer = site.talk(
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(peer.take(), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.push("abc");
  site.loop.run_until_blocked();
  std::string out = peer.take();
  const Answer answer = take_answer(out);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "abc");
  EXPECT_TRUE(answer.has("Connection: keep-alive"));
}

TEST(H1Ingress, NoContinueWhenRefused) {
  TestSite site;
  site.core.client_max_body_size = 2;
  auto& peer = site.talk(
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  const auto answers = take_all(peer.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 413);
  EXPECT_TRUE(answers[0].has("Connection: close"));
  EXPECT_TRUE(peer.ended());
}

TEST(H1Ingress, NoContinueOnHttp10OrWhenTheBodyIsHere) {
  TestSite site;
  EXPECT_TRUE(
      site.talk("POST /echo HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
          .arrived()
          .starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(site.talk("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: "
                        "100-continue\r\n\r\nabc")
                  .arrived()
                  .starts_with("HTTP/1.1 200"));
}

TEST(H1Ingress, BodyThatBreaksOff) {
  TestSite site;
  auto& peer = site.connect();
  peer.push("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  peer.finish();
  site.loop.run_until_blocked();
  EXPECT_EQ(site.log.lines.size(), 1u);
  EXPECT_EQ(site.counters.closed, 1);
}

TEST(H1Ingress, HeaderTimeout) {
  TestSite site;
  auto& silent = site.talk("");
  auto& slow = site.talk("GET / HT");
  site.run_for(site.core.client_header_timeout / 2);
  slow.push("T");
  site.run_for(site.core.client_header_timeout / 2 - 10);
  EXPECT_FALSE(silent.ended());
  EXPECT_FALSE(slow.ended());
  site.run_for(20);
  // Progress does not prolong it; who sent nothing gets nothing.
  EXPECT_TRUE(silent.ended());
  EXPECT_EQ(silent.arrived(), "");
  EXPECT_TRUE(slow.arrived().starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(site.log.lines.size(), 1u);
}

TEST(H1Ingress, BodyTimeoutIsBetweenReads) {
  TestSite site;
  auto& peer = site.talk("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  site.run_for(site.core.client_body_timeout - 10);
  peer.push("d");
  site.run_for(site.core.client_body_timeout - 10);
  EXPECT_EQ(peer.arrived(), "");
  site.run_for(20);
  EXPECT_TRUE(peer.arrived().starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(peer.ended());
}

TEST(H1Ingress, KeepaliveTimeout) {
  TestSite site;
  site.core.keepalive_timeout = 30'000;
  auto& peer = site.talk(kGetHello);
  site.run_for(29'990);
  EXPECT_FALSE(peer.ended());
  peer.push(kGetHello);
  site.run_for(29'990);
  EXPECT_FALSE(peer.ended());
  site.run_for(20);
  EXPECT_TRUE(peer.ended());
}

TEST(H1Ingress, SendTimeoutIsBetweenSends) {
  TestSite site({.seed = 1, .short_transfers = false, .delays = false, .window_bytes = 10'000});
  auto& peer = site.talk("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
  site.run_for(site.core.send_timeout - 10);
  peer.take();
  site.run_for(site.core.send_timeout - 10);
  EXPECT_FALSE(peer.ended());
  site.run_for(20);
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(site.log.lines.size(), 1u);
}

TEST(H1Ingress, PipelinedInputIsBounded) {
  TestSite site({.seed = 1, .short_transfers = false, .delays = false, .window_bytes = 1'000});
  site.core.keepalive_requests = 20'000;
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += kGetHello;
  auto& peer = site.talk(text);
  // Answers that nobody takes: requests stay where they are.
  EXPECT_GT(peer.pushed_and_not_received(), text.size() - 64 * 1024);
  EXPECT_LT(site.counters.requests, 32);
  std::string out;
  while (site.loop.run_until_blocked() && !peer.arrived().empty()) out += peer.take();
  EXPECT_EQ(take_all(out).size(), 10'000u);
}

TEST(H1Ingress, Http2PrefaceIsNoRequestWhereItIsOff) {
  TestSite site;
  site.endpoint.http2 = false;
  EXPECT_TRUE(site.talk("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").arrived().starts_with("HTTP/1.1 505 "));
}

TEST(H1Ingress, Http2PrefaceAtAnySplit) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  for (std::size_t i = 1; i < preface.size() + settings.size(); ++i) {
    TestSite site;
    const std::string text = preface + settings;
    auto& peer = site.talk(text.substr(0, i));
    peer.push(text.substr(i));
    site.loop.run_until_blocked();
    // The server's own SETTINGS frame comes first.
    ASSERT_GE(peer.arrived().size(), 9u) << i;
    EXPECT_EQ(peer.arrived()[3], 4);
    EXPECT_EQ(site.counters.requests, 0);
  }
}

TEST(H1Ingress, MethodThatBeginsLikeThePreface) {
  TestSite site;
  EXPECT_TRUE(
      site.talk("PRIX /hello HTTP/1.1\r\nHost: a\r\n\r\n").arrived().starts_with("HTTP/1.1 200 "));
}

TEST(Acceptors, LimitPausesAndRecovers) {
  TestSite site;
  proto::Acceptors few(site.services, 1);
  const int listener = site.loop.listen();
  few.add(listener, site.endpoint);
  auto& first = site.loop.connect_to(listener);
  auto& second = site.loop.connect_to(listener);
  site.loop.run_until_blocked();
  EXPECT_EQ(few.connections().size(), 1u);
  EXPECT_EQ(second.fd(), -1);
  first.finish();
  site.run_for(200);
  EXPECT_NE(second.fd(), -1);
  second.finish();
  few.stop();
  site.loop.run_until_quiet();
  EXPECT_TRUE(few.stopped());
  ::close(listener);
}

TEST(ConnectionSet, TellsWhenItIsEmpty) {
  TestSite site;
  struct Note : TurnTask {
    Note() : TurnTask([](TurnTask& task) { ++static_cast<Note&>(task).count; }) {}
    int count = 0;
  } note;
  auto& peer = site.talk(kGetHello);
  site.acceptors->connections().when_empty(&note);
  site.loop.run_until_blocked();
  EXPECT_EQ(note.count, 0);
  peer.finish();
  site.loop.run_until_blocked();
  EXPECT_EQ(note.count, 1);
  site.acceptors->connections().when_empty(nullptr);
}

}  // namespace
}  // namespace corehttpd::h1::testing
