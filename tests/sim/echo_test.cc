// A first server on the simulated loop: it sends back what it receives, whatever the pretended
// kernel does.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "corehttpd/io/sim_loop.h"

namespace corehttpd::io {
namespace {

// One connection: reads until its buffer holds something, stops, sends it all, goes on. Closes at
// the end, on errors, and when nothing has happened for a minute.
class Echo final : public Receiver {
 public:
  Echo(Loop& loop, int fd)
      : loop_(loop), fd_(fd), state_(*this, stopped), send_(sent, *this), idle_(expired, *this) {
    loop_.receive(fd_, state_);
    loop_.schedule(idle_, kIdleMs);
  }
  ~Echo() { EXPECT_TRUE(closed_); }
  bool closed() const { return closed_; }
  bool expired() const { return expired_; }

 private:
  static constexpr Milliseconds kIdleMs = 60'000;
  struct Send : Operation {
    Send(Complete complete, Echo& e) : Operation(complete), echo(e) {}
    Echo& echo;
  };
  struct Idle : Timer {
    Idle(Fire fire, Echo& e) : Timer(fire), echo(e) {}
    Echo& echo;
  };
  void on_received(std::span<const std::byte> data) override {
    loop_.schedule(idle_, kIdleMs);
    if (data.empty()) {
      ending_ = true;
    } else {
      buffer_.append(reinterpret_cast<const char*>(data.data()), data.size());
      loop_.receive_stop(state_);
    }
    go_on();
  }
  void on_receive_error(int) override {
    failed_ = true;
    go_on();
  }
  static void stopped(ReceiveState& state) { static_cast<Echo&>(state.receiver()).go_on(); }
  static void sent(Operation& operation, int result) {
    Echo& echo = static_cast<Send&>(operation).echo;
    echo.loop_.schedule(echo.idle_, kIdleMs);
    if (result < 0) {
      echo.failed_ = true;
    } else {
      echo.buffer_.erase(0, static_cast<std::size_t>(result));
    }
    echo.go_on();
  }
  static void expired(Timer& timer) {
    Echo& echo = static_cast<Idle&>(timer).echo;
    echo.failed_ = echo.expired_ = true;
    echo.go_on();
  }
  void go_on() {
    if (closed_) return;
    if (failed_ || (ending_ && buffer_.empty())) return close_when_idle();
    if (!buffer_.empty() && !send_.pending()) {
      const iovec vector{buffer_.data(), buffer_.size()};
      loop_.send(fd_, {&vector, 1}, false, send_);
    }
    if (buffer_.empty() && !ending_ && !state_.armed()) loop_.receive(fd_, state_);
  }
  void close_when_idle() {
    loop_.cancel(idle_);
    if (send_.pending()) return loop_.cancel(send_);
    if (!state_.idle()) {
      if (state_.armed()) loop_.receive_stop(state_);
      return;
    }
    close(fd_);
    closed_ = true;
  }

  Loop& loop_;
  int fd_;
  ReceiveState state_;
  Send send_;
  Idle idle_;
  std::string buffer_;
  bool ending_ = false;
  bool failed_ = false;
  bool closed_ = false;
  bool expired_ = false;
};

struct Accept : Operation {
  Accept()
      : Operation([](Operation& self, int result) { static_cast<Accept&>(self).fd = result; }) {}
  int fd = -1;
};

std::string text(SimLoop& loop) {
  std::string out(1 + loop.random(40'000), '\0');
  for (char& c : out) c = static_cast<char>('a' + loop.random(26));
  return out;
}

class EchoSimulation : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, EchoSimulation, ::testing::Range(1, 101));

TEST_P(EchoSimulation, EveryByteComesBackInOrder) {
  SimLoop loop(SimOptions{.seed = static_cast<std::uint64_t>(GetParam()), .window_bytes = 1000});
  const int listener = loop.listen();
  struct Client {
    SimPeer* peer;
    std::string sent;
    std::string received;
    std::unique_ptr<Echo> echo;
  };
  std::vector<Client> clients(1 + loop.random(4));
  for (Client& client : clients) {
    client.peer = &loop.connect_to(listener);
    client.sent = text(loop);
    client.peer->push(client.sent);
  }
  for (Client& client : clients) {
    sockaddr_storage address;
    Accept accept;
    loop.accept(listener, address, accept);
    ASSERT_TRUE(loop.run_until_blocked());
    ASSERT_GE(accept.fd, 0);
    EXPECT_EQ(AF_INET, address.ss_family);
    client.echo = std::make_unique<Echo>(loop, accept.fd);
  }
  for (bool more = true; more;) {
    ASSERT_TRUE(loop.run_until_blocked());
    more = false;
    for (Client& client : clients) {
      const std::string got = client.peer->take();
      client.received += got;
      more |= !got.empty();
    }
  }
  for (Client& client : clients) {
    EXPECT_EQ(client.sent, client.received);
    EXPECT_FALSE(client.peer->ended());
    client.peer->finish();
  }
  ASSERT_TRUE(loop.run_until_quiet());
  for (Client& client : clients) {
    EXPECT_TRUE(client.echo->closed());
    EXPECT_FALSE(client.echo->expired());
    EXPECT_TRUE(client.peer->ended());
  }
  close(listener);
}

TEST_P(EchoSimulation, ResetsAndLeapingClocksOnlyEndConnections) {
  SimLoop loop(SimOptions{.seed = static_cast<std::uint64_t>(GetParam()),
                          .resets_per_mille = 20,
                          .clock_leaps_per_mille = 50});
  SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd());
  const std::string sent = text(loop);
  peer.push(sent);
  std::string received;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(loop.run_until_blocked());
    received += peer.take();
  }
  // What did come back is a beginning of what was sent.
  EXPECT_EQ(sent.substr(0, received.size()), received);
  // In the end the idle timer closes what no reset has.
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.closed());
  EXPECT_TRUE(peer.ended());
  EXPECT_TRUE(peer.was_reset() || echo.expired());
}

TEST(Simulation, SameSeedSameRun) {
  const auto run = [](std::uint64_t seed) {
    SimLoop loop(SimOptions{.seed = seed, .clock_leaps_per_mille = 100});
    SimPeer& peer = loop.connect_pair();
    Echo echo(loop, peer.fd());
    peer.push(std::string(5000, 'x'));
    std::vector<std::size_t> steps;
    while (!loop.quiet()) {
      loop.run_once();
      steps.push_back(peer.arrived().size());
    }
    steps.push_back(static_cast<std::size_t>(loop.clock().now_ms()));
    return steps;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

TEST(Simulation, StalledPeerTimesOut) {
  SimLoop loop(SimOptions{.seed = 9});
  SimPeer& peer = loop.connect_pair();
  peer.set_window(0);
  Echo echo(loop, peer.fd());
  peer.push("never comes back");
  ASSERT_TRUE(loop.run_until_blocked());
  EXPECT_FALSE(echo.closed());
  const Milliseconds before = loop.clock().now_ms();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.expired());
  EXPECT_GE(loop.clock().now_ms(), before + 59'000);
  EXPECT_EQ("", peer.arrived());
}

TEST(Simulation, ConnectFollowsTheTestsDecision) {
  SimLoop loop(SimOptions{.seed = 2});
  Accept connected;  // Keeps the result, whatever the operation.
  sockaddr_storage address{};
  address.ss_family = AF_INET;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  loop.connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address, connected);
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_EQ(-ECONNREFUSED, connected.fd);
  EXPECT_EQ(nullptr, loop.peer_of(fd));
  loop.on_connect(
      [](const sockaddr* to, socklen_t) { return to->sa_family == AF_INET ? 0 : -ENOENT; });
  loop.connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address, connected);
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_EQ(0, connected.fd);
  SimPeer* origin = loop.peer_of(fd);
  ASSERT_NE(nullptr, origin);
  EXPECT_FALSE(origin->ended());
  close(fd);
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(origin->ended());
}

}  // namespace
}  // namespace corehttpd::io
