// Streams whose peer is the library's own client.
#include <gtest/gtest.h>

#include <string>

#include "unit/tls/stream_fixture.h"

namespace corehttpd::tls {
namespace {

using namespace testing;

std::string text(io::SimLoop& loop, std::size_t bytes_max) {
  std::string out(1 + loop.random(bytes_max), '\0');
  for (char& c : out) c = static_cast<char>('a' + loop.random(26));
  return out;
}

void run(io::SimLoop& loop, Client& client) {
  for (int idle = 0; idle < 3;) {
    ASSERT_TRUE(loop.run_until_blocked());
    idle = client.pump(1 + loop.random(20'000)) ? 0 : idle + 1;
  }
}

class StreamSimulation : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, StreamSimulation, ::testing::Range(1, 61));

TEST_P(StreamSimulation, EveryByteComesBackInOrder) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed),
                                  .window_bytes = seed % 3 == 0 ? 700u : 30'000u});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), seed % 4 == 0 ? Site::slow() : Site::quick());
  const std::string data = text(loop, 200'000);
  Client client(peer, seed % 2 == 0 ? TLS1_2_VERSION : TLS1_3_VERSION, data);
  run(loop, client);
  EXPECT_EQ(client.received.size(), data.size());
  EXPECT_TRUE(client.received == data);
  EXPECT_TRUE(echo.ended);  // The client's close_notify.
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
}

TEST_P(StreamSimulation, ResetsAnywhereLeaveNothingBehind) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{
      .seed = static_cast<std::uint64_t>(seed), .resets_per_mille = 30, .window_bytes = 5000});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), seed % 4 == 0 ? Site::slow() : Site::quick());
  Client client(peer, seed % 2 == 0 ? TLS1_2_VERSION : TLS1_3_VERSION, text(loop, 100'000));
  run(loop, client);
  if (!echo.closed()) peer.reset();
  ASSERT_TRUE(loop.run_until_quiet());
  echo.close();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
}

TEST_P(StreamSimulation, ClosesInAnyState) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed), .window_bytes = 2000});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), seed % 4 == 0 ? Site::slow() : Site::quick());
  Client client(peer, TLS1_3_VERSION, text(loop, 100'000));
  for (std::uint64_t turns = loop.random(60); turns > 0; --turns) {
    loop.run_once();
    client.pump(5000);
  }
  echo.close();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
}

// As of a client that was here before. For one use: a connection that fails spoils it.
SSL_SESSION* make_session() {
  io::SimLoop loop(io::SimOptions{.seed = 1});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), Site::early());
  Client client(peer, TLS1_3_VERSION, "hello");
  run(loop, client);
  EXPECT_TRUE(echo.closed());
  return client.session();
}

TEST_P(StreamSimulation, EarlyDataComesBackInOrder) {
  const int seed = GetParam();
  SSL_SESSION* session = make_session();
  ASSERT_EQ(SSL_SESSION_get_max_early_data(session), 16384u);
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed),
                                  .window_bytes = seed % 3 == 0 ? 700u : 30'000u});
  io::SimPeer& peer = loop.connect_pair();
  // A site that does not take it does without.
  const bool taken = seed % 5 != 0;
  Echo echo(loop, peer.fd(), taken ? Site::early() : Site::quick());
  const std::string data = text(loop, 50'000);
  Client client(peer, TLS1_3_VERSION, data);
  client.resume(session, std::min<std::size_t>(data.size(), 1 + loop.random(16'000)));
  run(loop, client);
  EXPECT_EQ(client.early_accepted(), taken);
  EXPECT_TRUE(client.received == data);
  EXPECT_TRUE(echo.ended);
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
  SSL_SESSION_free(session);
}

TEST_P(StreamSimulation, ClosesInAnyStateOfEarlyData) {
  const int seed = GetParam();
  SSL_SESSION* session = make_session();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed), .window_bytes = 2000});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), Site::early());
  const std::string data = text(loop, 50'000);
  Client client(peer, TLS1_3_VERSION, data);
  client.resume(session, std::min<std::size_t>(data.size(), 1 + loop.random(16'000)));
  const bool silent = seed % 2 == 0;  // The client sends its first flight and nothing more.
  for (std::uint64_t turns = loop.random(40); turns > 0; --turns) {
    loop.run_once();
    if (!silent || turns % 16 == 0) client.pump(5000);
  }
  echo.close();
  // At the latest when patience with the handshake has ended.
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
  SSL_SESSION_free(session);
}

TEST_P(StreamSimulation, GarbageIsNoHandshake) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed)});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), Site::quick());
  peer.push("\x16\x03\x01" + text(loop, 3000));
  peer.finish();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_FALSE(echo.failure.empty());
  EXPECT_TRUE(echo.closed());
}

TEST(Stream, PlainTextIsHandedOn) {
  io::SimLoop loop(io::SimOptions{.seed = 1, .short_transfers = false});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), Site::quick());
  peer.push("GET / HTTP/1.1\r\n");
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_EQ(echo.plain, "GET / HTTP/1.1\r\n");
  EXPECT_TRUE(echo.closed());
}

}  // namespace
}  // namespace corehttpd::tls
