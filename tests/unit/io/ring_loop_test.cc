// What only a real kernel can show.
#include <poll.h>
#include <pthread.h>
#include <sys/un.h>

#include <algorithm>
#include <thread>

#include "unit/io/world.h"

namespace corehttpd::io::testing {
namespace {

class RingLoopTest : public ::testing::Test {
 protected:
  RealWorld world_;
  Loop& loop() { return world_.loop(); }
  bool run_until(const std::function<bool()>& holds) { return world_.run_until(holds); }
};

Address any_port() {
  Address address = *parse_address("127.0.0.1:1", 0);
  address.set_port(0);
  return address;
}

TEST_F(RingLoopTest, AcceptsWithThePeersAddress) {
  const int listener = *listen_on(any_port(), {});
  const Address bound = *local_address(listener);
  sockaddr_storage peer;
  Outcome accepted;
  loop().accept(listener, peer, accepted);
  const int client = *open_stream_socket(AF_INET);
  Outcome connected;
  loop().connect(client, bound.get(), bound.length, connected);
  EXPECT_FALSE(connected.done());
  ASSERT_TRUE(run_until([&] { return accepted.done() && connected.done(); }));
  EXPECT_EQ(0, connected.result);
  ASSERT_GE(accepted.result, 0);
  EXPECT_EQ(O_NONBLOCK, fcntl(accepted.result, F_GETFL) & O_NONBLOCK);
  EXPECT_EQ(FD_CLOEXEC, fcntl(accepted.result, F_GETFD) & FD_CLOEXEC);
  Address seen;
  seen.storage = peer;
  seen.length = sizeof(sockaddr_in);
  EXPECT_EQ(local_address(client)->to_string(), seen.to_string());
  ::close(accepted.result);
  ::close(client);
  // A second one, cancelled: the address length of the first must not have stuck, and nothing is
  // left behind.
  loop().accept(listener, peer, accepted);
  int turns = 0;
  ASSERT_TRUE(run_until([&] { return ++turns > 2; }));
  loop().cancel(accepted);
  ASSERT_TRUE(run_until([&] { return accepted.completions == 2; }));
  EXPECT_EQ(-ECANCELED, accepted.result);
  ::close(listener);
}

TEST_F(RingLoopTest, ConnectToNobodyIsRefused) {
  const int listener = *listen_on(any_port(), {});
  const Address bound = *local_address(listener);
  ::close(listener);
  const int client = *open_stream_socket(AF_INET);
  Outcome outcome;
  loop().connect(client, bound.get(), bound.length, outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_EQ(-ECONNREFUSED, outcome.result);
  ::close(client);
}

TEST_F(RingLoopTest, ConnectToAFullUnixBacklogSaysSoAtOnce) {
  const std::string path = "/tmp/corehttpd-backlog-" + std::to_string(getpid()) + ".sock";
  const Address address = *parse_address("unix:" + path, 0);
  const int listener = *listen_on(address, {.backlog = 1});
  std::vector<int> clients;
  Outcome outcome;
  int successes = 0;
  while (successes < 100) {
    clients.push_back(*open_stream_socket(AF_UNIX));
    outcome.completions = 0;
    loop().connect(clients.back(), address.get(), address.length, outcome);
    ASSERT_TRUE(run_until([&] { return outcome.done(); }));
    if (outcome.result != 0) break;
    ++successes;
  }
  EXPECT_EQ(-EAGAIN, outcome.result);
  EXPECT_EQ(2, successes);  // The kernel queues one more than the backlog.
  for (const int fd : clients) ::close(fd);
  ::close(listener);
  unlink(path.c_str());
}

TEST_F(RingLoopTest, CancelOfASendFileThatWaitsForRoom) {
  auto peer = world_.connect();
  const TemporaryFile file(pattern(3'000'000));
  std::size_t sent = 0;
  Outcome outcome;
  // The reader reads nothing: sooner or later one send waits.
  while (true) {
    outcome.completions = 0;
    loop().send_file(peer->fd(), file.fd(), sent, 3'000'000 - sent, outcome);
    int turns = 0;
    ASSERT_TRUE(run_until([&] { return outcome.done() || ++turns > 20; }));
    if (!outcome.done()) break;
    ASSERT_GT(outcome.result, 0);
    sent += static_cast<std::size_t>(outcome.result);
    ASSERT_LT(sent, 3'000'000U);
  }
  loop().cancel(outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_EQ(-ECANCELED, outcome.result);
}

TEST_F(RingLoopTest, SendFileOfColdPages) {
  const std::string all = pattern(1'500'000);
  const TemporaryFile file(all);
  fsync(file.fd());
  // Drops the pages where the file system lets go of them; where not, the test is that of a warm
  // file.
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  auto peer = world_.connect();
  std::string arrived;
  std::size_t sent = 0;
  Outcome outcome;
  ASSERT_TRUE(run_until([&] {
    if (outcome.done()) {
      EXPECT_GT(outcome.result, 0);
      sent += static_cast<std::size_t>(std::max(outcome.result, 0));
      outcome.completions = 0;
    }
    if (!outcome.pending() && sent < all.size())
      loop().send_file(peer->fd(), file.fd(), sent, all.size() - sent, outcome);
    arrived += peer->take();
    return arrived.size() == all.size();
  }));
  EXPECT_TRUE(all == arrived);
  ASSERT_TRUE(run_until([&] { return !outcome.pending(); }));
}

TEST_F(RingLoopTest, SendFileOfADirectoryOrBadDescriptorFails) {
  auto peer = world_.connect();
  const int directory = ::open("/tmp", O_RDONLY | O_DIRECTORY);
  Outcome outcome, bad;
  loop().send_file(peer->fd(), directory, 0, 100, outcome);
  loop().send_file(peer->fd(), 1'000'000, 0, 100, bad);
  ASSERT_TRUE(run_until([&] { return outcome.done() && bad.done(); }));
  EXPECT_LT(outcome.result, 0);
  EXPECT_EQ(-EBADF, bad.result);
  ::close(directory);
}

TEST(RingLoop, ManySendersWithTooFewBuffers) {
  // Four buffers for forty peers that all send more than all of them hold, before the loop looks.
  RealWorld world(
      RingOptions{.submission_entries = 64, .receive_buffers = 4, .receive_buffer_bytes = 256});
  constexpr int kPeers = 40;
  const std::string all = pattern(9'000);
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<std::unique_ptr<Collector>> collectors;
  for (int i = 0; i < kPeers; ++i) {
    peers.push_back(world.connect());
    collectors.push_back(std::make_unique<Collector>());
    world.loop().receive(peers.back()->fd(), collectors.back()->state);
  }
  for (auto& peer : peers) {
    peer->push(all);
    peer->finish();
  }
  ASSERT_TRUE(world.run_until([&] {
    return std::all_of(collectors.begin(), collectors.end(),
                       [](const auto& c) { return c->ended; });
  }));
  for (auto& collector : collectors) EXPECT_EQ(all, collector->data);
}

TEST(RingLoop, StopUnderAFloodKeepsEveryByteInOrder) {
  RealWorld world(
      RingOptions{.submission_entries = 8, .receive_buffers = 8, .receive_buffer_bytes = 512});
  auto peer = world.connect();
  Collector collector;
  // Stops after each piece and goes on when the stop is told: every buffer that the kernel filled
  // meanwhile must come in order.
  collector.on_data = [&] { world.loop().receive_stop(collector.state); };
  world.loop().receive(peer->fd(), collector.state);
  const std::string all = pattern(100'000);
  std::size_t pushed = 0;
  int stops = 0;
  ASSERT_TRUE(world.run_until([&] {
    if (pushed < all.size() && pushed - collector.data.size() < 10'000) {
      const std::string_view part = std::string_view(all).substr(pushed, 5'000);
      peer->push(part);
      pushed += part.size();
      if (pushed == all.size()) peer->finish();
    }
    if (collector.stops > stops) {
      stops = collector.stops;
      world.loop().receive(peer->fd(), collector.state);
    }
    return collector.ended;
  }));
  EXPECT_EQ(all, collector.data);
}

TEST(RingLoop, MoreRequestsThanTheSubmissionQueueHolds) {
  RealWorld world(RingOptions{.submission_entries = 8});
  auto peer = world.connect();
  std::vector<Outcome> polls(300);
  for (Outcome& poll : polls) world.loop().poll(peer->fd(), POLLOUT, poll);
  // Messages are used again after each flush while their requests are under way.
  const TemporaryFile file("");
  std::vector<Outcome> sends(100);
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    peers.push_back(world.connect());
    const std::string left = std::to_string(i), right = "!";
    static std::vector<std::string> kept(200);
    kept[2 * i] = left;
    kept[2 * i + 1] = right;
    const iovec vectors[] = {{kept[2 * i].data(), kept[2 * i].size()}, {kept[2 * i + 1].data(), 1}};
    world.loop().send(peers.back()->fd(), vectors, false, sends[i]);
  }
  ASSERT_TRUE(world.run_until([&] {
    return std::all_of(polls.begin(), polls.end(), [](const Outcome& o) { return o.done(); }) &&
           std::all_of(sends.begin(), sends.end(), [](const Outcome& o) { return o.done(); });
  }));
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const std::string expected = std::to_string(i) + "!";
    EXPECT_EQ(static_cast<int>(expected.size()), sends[i].result);
    EXPECT_EQ(expected, peers[i]->take());
  }
}

TEST_F(RingLoopTest, MoreIsHeldBackUntilTheRestFollows) {
  auto peer = world_.connect();
  Outcome outcome;
  std::string head = "head ", body = "body";
  iovec vector{head.data(), head.size()};
  loop().send(peer->fd(), {&vector, 1}, true, outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_EQ(5, outcome.result);
  vector = {body.data(), body.size()};
  loop().send(peer->fd(), {&vector, 1}, false, outcome);
  std::string arrived;
  ASSERT_TRUE(run_until([&] {
    arrived += peer->take();
    return arrived.size() == 9;
  }));
  EXPECT_EQ("head body", arrived);
}

TEST_F(RingLoopTest, WakesFromAThreadWithoutTimers) {
  std::thread thread([this] {
    loop().wake();
    loop().wake();
  });
  // Would block for ever without the wake-up.
  loop().run_once();
  thread.join();
}

TEST_F(RingLoopTest, StopEndsRun) {
  Timer timer([](Timer&) {});
  struct Stop : TurnTask {
    explicit Stop(Loop& l)
        : TurnTask([](TurnTask& t) { static_cast<Stop&>(t).loop.stop(); }), loop(l) {}
    Loop& loop;
  } stop(loop());
  loop().turn().post(stop);
  loop().run();
  SUCCEED();
}

volatile sig_atomic_t signals_seen = 0;
Loop* signalled_loop = nullptr;

TEST_F(RingLoopTest, WakesFromASignalHandler) {
  signals_seen = 0;
  signalled_loop = &loop();
  struct sigaction action {};
  action.sa_handler = [](int) {
    signals_seen = signals_seen + 1;
    signalled_loop->wake();
  };
  sigaction(SIGUSR1, &action, nullptr);
  const pthread_t self = pthread_self();
  std::thread thread([self] { pthread_kill(self, SIGUSR1); });
  while (signals_seen == 0) loop().run_once();
  thread.join();
  EXPECT_EQ(1, signals_seen);
}

TEST(RingLoop, OffloadThreadsBlockSignals) {
  RealWorld world;
  struct Mask final : OffloadTask {
    void run() noexcept override { pthread_sigmask(SIG_SETMASK, nullptr, &mask); }
    void done() override { ran = true; }
    sigset_t mask{};
    bool ran = false;
  } task;
  ASSERT_TRUE(world.loop().offload(task));
  ASSERT_TRUE(world.run_until([&] { return task.ran; }));
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGCHLD})
    EXPECT_EQ(1, sigismember(&task.mask, signal));
}

TEST(RingLoop, BlocksHaveTheirLimit) {
  RealWorld world(RingOptions{.blocks_limit = 1});
  const BlockRef first = world.loop().blocks().take();
  EXPECT_TRUE(first);
  EXPECT_FALSE(world.loop().blocks().take());
}

TEST(RingFailure, NamesCauseAndRemedy) {
  const auto contains = [](int error, const char* text) {
    EXPECT_NE(std::string_view::npos, std::string_view(explain_ring_failure(error)).find(text))
        << error << " " << text;
  };
  contains(EPERM, "kernel.io_uring_disabled");
  contains(EPERM, "seccomp");
  contains(ENOSYS, "6.1");
  contains(EINVAL, "too old");
  contains(ENOMEM, "LimitMEMLOCK");
  contains(EMFILE, "LimitNOFILE");
  contains(EIO, "could not be set up");
}

}  // namespace
}  // namespace corehttpd::io::testing
