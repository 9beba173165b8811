// The connection: its beginning, its ends, its deadlines, and what it doesn't put up with.
#include <gtest/gtest.h>

#include "unit/proto/h2_fixture.h"

namespace corehttpd::h2::testing {
namespace {

class H2Connection : public ::testing::Test {
 protected:
  void SetUp() override {
    worker.handle("/a", [](http::Exchange& exchange) { return answer(exchange, "hello"); });
    worker.handle("/wait", [this](http::Exchange& exchange) {
      source = exchange.arena().make<ScriptSource>(exchange.transport());
      exchange.response().status = 200;
      exchange.respond(source);
      return http::StepOutcome::answered();
    });
  }
  std::uint32_t goaway_code() {
    return client.goaways.empty() ? 999 : client.goaways.back().second;
  }
  // Runs until the server has closed, feeding what has been pushed.
  void run() {
    worker.loop.run_until_blocked();
    client.take_in();
    worker.loop.run_until_blocked();
    client.take_in();
  }
  // Looks for a GOAWAY by hand: the client library knows nothing of streams that it didn't open and
  // would end the session itself.
  void take_goaway() {
    const std::string arrived = client.peer().take();
    for (std::size_t at = 0; at + 9 <= arrived.size();) {
      const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(arrived[at + i]));
      };
      if (byte(3) == NGHTTP2_GOAWAY) client.goaways.emplace_back(byte(12), byte(16));
      at += 9 + (byte(0) << 16 | byte(1) << 8 | byte(2));
    }
  }
  Worker worker;
  Client client{worker};
  ScriptSource* source = nullptr;
};

TEST_F(H2Connection, PrefaceReceivedByTheAcceptorInParts) {
  nghttp2_submit_settings(client.session(), 0, nullptr, 0);
  const std::uint8_t* bytes = nullptr;
  std::string all;
  const auto id = client.get("/a");
  for (ssize_t n; (n = nghttp2_session_mem_send(client.session(), &bytes)) > 0;)
    all.append(reinterpret_cast<const char*>(bytes), n);
  client.connect(all.substr(0, 10));
  worker.loop.run_until_blocked();
  client.peer().push(all.substr(10));
  client.pump();
  EXPECT_EQ(client.replies[id].body, "hello");
}

TEST_F(H2Connection, WrongPrefaceIsClosed) {
  client.connect("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
  worker.loop.run_until_quiet();
  EXPECT_TRUE(client.peer().ended());
  EXPECT_TRUE(worker.set.empty());
  EXPECT_EQ(worker.counters.closed, 1);
}

TEST_F(H2Connection, SilentClientTimesOut) {
  worker.core.client_header_timeout = 1000;
  client.connect();
  const Milliseconds begun = worker.loop.clock().now_ms();
  worker.loop.run_until_quiet();
  EXPECT_TRUE(worker.set.empty());
  EXPECT_GE(worker.loop.clock().now_ms() - begun, 1000);
  EXPECT_LT(worker.loop.clock().now_ms() - begun, 3000);
  EXPECT_EQ(worker.counters.active[0] + worker.counters.active[1] + worker.counters.active[2], 0);
}

TEST_F(H2Connection, IdleConnectionEndsWithGoaway) {
  worker.core.keepalive_timeout = 20'000;
  client.start();
  client.get("/a");
  client.pump();
  const Milliseconds idle_since = worker.loop.clock().now_ms();
  worker.loop.run_until_quiet();
  client.take_in();
  ASSERT_EQ(client.goaways.size(), 1u);
  EXPECT_EQ(client.goaways[0], (std::pair<std::int32_t, std::uint32_t>{1, NGHTTP2_NO_ERROR}));
  EXPECT_TRUE(worker.set.empty());
  EXPECT_GE(worker.loop.clock().now_ms() - idle_since, 20'000);
}

// Its session has given memory back meanwhile.
TEST_F(H2Connection, IdleConnectionGoesOn) {
  worker.core.keepalive_timeout = 60'000;
  client.start();
  io::Timer later([](io::Timer&) {});
  for (int round = 0; round < 3; ++round) {
    const auto id = client.get("/a");
    client.pump();
    EXPECT_EQ(client.replies[id].body, "hello");
    worker.loop.schedule(later, 20'000);
    const Milliseconds end = worker.loop.clock().now_ms() + 20'000;
    while (worker.loop.clock().now_ms() < end) worker.loop.run_once();
  }
  EXPECT_TRUE(client.goaways.empty());
}

TEST_F(H2Connection, DrainGoesInTwoSteps) {
  client.start();
  const auto id = client.get("/wait");
  client.pump();
  worker.set.drain();
  worker.loop.run_until_blocked();
  // A request that crossed the notice on its way is served.
  const auto crossing = client.get("/a");
  client.send_out();
  client.pump();
  ASSERT_EQ(client.goaways.size(), 1u);
  EXPECT_EQ(client.goaways[0],
            (std::pair<std::int32_t, std::uint32_t>{INT32_MAX, NGHTTP2_NO_ERROR}));
  EXPECT_EQ(client.replies[crossing].body, "hello");
  source->put("done");
  source->finish();
  client.pump();
  EXPECT_EQ(client.replies[id].body, "done");
  // The client library takes no more frames after a GOAWAY and its last answer, so this one is read
  // by hand.
  worker.loop.run_until_quiet();
  EXPECT_EQ(client.peer().take(), std::string("\0\0\x08\x07\0\0\0\0\0\0\0\0\x03\0\0\0\0", 17));
  EXPECT_TRUE(client.peer().ended());
  EXPECT_TRUE(worker.set.empty());
}

// Its preface arrived after everybody had been told to drain.
TEST_F(H2Connection, OneHandedOverDuringAGracefulEndDrainsToo) {
  worker.core.keepalive_timeout = 600'000;
  worker.services.draining = true;
  const auto id = client.get("/a");
  client.start();
  EXPECT_EQ(client.replies[id].body, "hello");
  ASSERT_EQ(client.goaways.size(), 1u);
  EXPECT_EQ(client.goaways[0],
            (std::pair<std::int32_t, std::uint32_t>{INT32_MAX, NGHTTP2_NO_ERROR}));
  const Milliseconds begun = worker.loop.clock().now_ms();
  worker.loop.run_until_quiet();
  EXPECT_TRUE(worker.set.empty());
  EXPECT_LT(worker.loop.clock().now_ms(), begun + 60'000);
}

TEST_F(H2Connection, KeepaliveRequestsEndTheConnectionGracefully) {
  worker.core.keepalive_requests = 2;
  client.start();
  client.get("/a");
  client.pump();
  EXPECT_TRUE(client.goaways.empty());
  const auto id = client.get("/a");
  client.pump();
  EXPECT_EQ(client.replies[id].body, "hello");
  EXPECT_EQ(client.goaways.size(), 1u);
  worker.loop.run_until_quiet();
  EXPECT_TRUE(worker.set.empty());
}

TEST_F(H2Connection, ClientGoneEndsItsExchanges) {
  client.start();
  client.get("/wait");
  client.pump();
  EXPECT_EQ(worker.counters.active[1], 1);
  client.peer().finish();
  worker.loop.run_until_blocked();
  EXPECT_EQ(worker.log.lines.size(), 1u);
  EXPECT_TRUE(worker.set.empty());
  EXPECT_EQ(worker.counters.active[1], 0);
  EXPECT_EQ(worker.counters.active[2], 0);
}

TEST_F(H2Connection, CloseNowWhileASendIsUnderWay) {
  client.start();
  client.peer().set_window(0);
  client.get("/a");
  client.send_out();
  worker.loop.run_until_blocked();
  EXPECT_TRUE(worker.log.lines.empty());  // Not handed to the kernel.
  worker.set.close_now();
  worker.loop.run_until_blocked();
  EXPECT_TRUE(worker.set.empty());
  EXPECT_EQ(worker.log.lines.size(), 1u);
}

TEST_F(H2Connection, PeerThatDoesNotReadTimesOut) {
  worker.core.send_timeout = 3000;
  client.start();
  client.peer().set_window(0);
  client.get("/a");
  client.send_out();
  const Milliseconds begun = worker.loop.clock().now_ms();
  while (!worker.set.empty() && worker.loop.clock().now_ms() < begun + 60'000)
    worker.loop.run_once();
  EXPECT_GE(worker.loop.clock().now_ms(), begun + 3000);
  EXPECT_LT(worker.loop.clock().now_ms(), begun + 4000);
}

TEST_F(H2Connection, ZeroWindowTimesOutTheStreamOnly) {
  worker.core.send_timeout = 3000;
  client.start(0);
  const auto stuck = client.get("/a");
  client.pump();
  EXPECT_EQ(client.replies[stuck].status, 200);
  EXPECT_EQ(client.replies[stuck].body, "");
  for (int i = 0; i < 200 && !client.replies[stuck].closed; ++i) {
    worker.loop.run_once();
    client.take_in();
  }
  EXPECT_EQ(client.replies[stuck].error_code, static_cast<std::uint32_t>(NGHTTP2_CANCEL));
  EXPECT_FALSE(worker.set.empty());
}

// Two streams wait for window; the first one's reset fills a socket that nobody reads any more, so
// that the second one's cannot leave. Waiting for send_timeout must then take no work.
TEST_F(H2Connection, ResetsThatCannotLeaveCauseNoWork) {
  worker.core.send_timeout = 3000;
  client.start(0);
  client.get("/a");
  client.pump();
  struct Bell : io::Timer {
    Bell() : io::Timer([](io::Timer&) {}) {}
  } bell;
  worker.base.schedule(bell, 100);
  while (bell.scheduled()) worker.loop.run_once();
  client.get("/a");
  client.pump();
  client.peer().set_window(0);
  int turns = 0;
  while (!worker.set.empty() && turns < 10'000) {
    worker.loop.run_once();
    ++turns;
  }
  EXPECT_TRUE(worker.set.empty());
  EXPECT_LT(turns, 100);
}

TEST_F(H2Connection, RapidResetIsCalmedDown) {  // Case 21.
  client.start();
  const std::string head(
      "\x82\x86\x41\x01"
      "a\x44\x05/wait",
      12);
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    client.push_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS,
                      1 + 2 * i, head);
    client.push_frame(NGHTTP2_RST_STREAM, 0, 1 + 2 * i, std::string("\0\0\0\x08", 4));
  }
  run();
  EXPECT_EQ(goaway_code(), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_LE(worker.counters.requests, 250);
  worker.loop.run_until_quiet();
  EXPECT_TRUE(worker.set.empty());
}

TEST_F(H2Connection, MadeYouResetIsCalmedDown) {
  client.start();
  const std::string head(
      "\x82\x86\x41\x01"
      "a\x44\x05/wait",
      12);
  // In portions, so that each is within the limit of concurrent streams, which is the first
  // defence.
  for (std::uint32_t i = 0; i < 10'000 && client.goaways.empty();) {
    for (const std::uint32_t end = i + 50; i < end; ++i) {
      client.push_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS,
                        1 + 2 * i, head);
      client.push_frame(NGHTTP2_WINDOW_UPDATE, 0, 1 + 2 * i,
                        "\x7f\xff\xff\xff");  // The window overflows: a stream error.
    }
    worker.loop.run_until_blocked();
    take_goaway();
  }
  EXPECT_EQ(goaway_code(), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_LE(worker.counters.requests, 300);
  EXPECT_EQ(static_cast<int>(worker.log.lines.size()), worker.counters.requests);
}

TEST_F(H2Connection, FloodsAreCalmedDown) {
  struct Flood {
    const char* name;
    std::uint8_t type, flags;
    std::uint32_t stream;
    std::string payload;
  };
  const Flood floods[] = {
      {"ping", NGHTTP2_PING, 0, 0, std::string(8, 'x')},
      {"settings", NGHTTP2_SETTINGS, 0, 0, ""},
      {"priority", NGHTTP2_PRIORITY, 0, 1, std::string("\0\0\0\0\x10", 5)},
      {"window", NGHTTP2_WINDOW_UPDATE, 0, 0, std::string("\0\0\0\1", 4)},
  };
  for (const Flood& flood : floods) {
    Client other(worker);
    other.start();
    for (int i = 0; i < 20'000; ++i)
      other.push_frame(flood.type, flood.flags, flood.stream, flood.payload);
    worker.loop.run_until_blocked();
    other.take_in();
    ASSERT_FALSE(other.goaways.empty()) << flood.name;
    EXPECT_EQ(other.goaways.back().second, static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM))
        << flood.name;
    EXPECT_LT(other.received_bytes, 30'000u) << flood.name;
  }
}

TEST_F(H2Connection, EmptyDataFramesAreCalmedDown) {
  client.start();
  const auto id = client.open_post("/wait");
  client.pump();
  source->put("x");
  for (int i = 0; i < 20'000; ++i)
    client.push_frame(NGHTTP2_DATA, 0, static_cast<std::uint32_t>(id), "");
  run();
  EXPECT_EQ(goaway_code(), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
}

TEST_F(H2Connection, ContinuationsAreBounded) {  // Case 22.
  for (const std::string& payload : {std::string(), std::string("\x00\x01x\x01y", 5)}) {
    Client other(worker);
    other.start();
    other.push_frame(NGHTTP2_HEADERS, 0, 1, std::string("\x82\x86\x84", 3));
    for (int i = 0; i < 1000; ++i) other.push_frame(NGHTTP2_CONTINUATION, 0, 1, payload);
    worker.loop.run_until_blocked();
    other.take_in();
    ASSERT_FALSE(other.goaways.empty());
    EXPECT_EQ(other.goaways.back().second, static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  }
}

TEST_F(H2Connection, HeaderBlockThatNeverEndsTimesOut) {
  worker.core.client_header_timeout = 2000;
  client.start();
  client.push_frame(NGHTTP2_HEADERS, 0, 1, std::string("\x82\x86\x84", 3));
  worker.loop.run_until_quiet();
  EXPECT_TRUE(worker.set.empty());
  EXPECT_EQ(worker.counters.requests, 0);
}

TEST_F(H2Connection, StreamsBeyondTheLimitAreRefused) {
  client.start();
  std::vector<std::int32_t> ids;
  for (std::uint32_t i = 0; i < 130; ++i) {
    client.push_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS,
                      1 + 2 * i,
                      std::string("\x82\x86\x41\x01"
                                  "a\x44\x05/wait",
                                  12));
  }
  worker.loop.run_until_blocked();
  EXPECT_EQ(worker.counters.requests, 128);
  EXPECT_FALSE(worker.set.empty());
}

// Everything that a kernel may do, over many seeds: the answers are the same.
TEST(H2Simulation, AnyTransferPattern) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Worker worker({.seed = seed});
    std::string text(40'000, 'x');
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>('a' + (i + seed) % 26);
    worker.handle("/big", [&](http::Exchange& exchange) {
      auto* source = exchange.arena().make<ScriptSource>(exchange.transport());
      source->piece_bytes = 1 + seed * 97;
      source->put(text);
      source->finish();
      exchange.response().status = 200;
      exchange.respond(source);
      return http::StepOutcome::answered();
    });
    worker.handle("/a", [](http::Exchange& exchange) { return answer(exchange, "hello"); });
    Client client(worker);
    client.start();
    const auto a = client.get("/big"), b = client.get("/a"), c = client.get("/big");
    client.pump();
    EXPECT_TRUE(client.replies[a].body == text) << seed;
    EXPECT_EQ(client.replies[b].body, "hello") << seed;
    EXPECT_TRUE(client.replies[c].body == text) << seed;
    EXPECT_EQ(worker.log.lines.size(), 3u) << seed;
  }
}

TEST(H2Simulation, ResetsAtAnyTimeLeaveNothingBehind) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Worker worker({.seed = seed, .resets_per_mille = 20});
    worker.handle(
        "/a", [](http::Exchange& exchange) { return answer(exchange, std::string(30'000, 'r')); });
    Client client(worker);
    client.start();
    for (int i = 0; i < 20; ++i) client.get("/a");
    client.pump();
    worker.loop.run_until_quiet();
    EXPECT_TRUE(worker.set.empty()) << seed;
    EXPECT_EQ(static_cast<int>(worker.log.lines.size()), worker.counters.requests) << seed;
    EXPECT_EQ(worker.loop.blocks().in_use(), 0u) << seed;
  }
}

}  // namespace
}  // namespace corehttpd::h2::testing
