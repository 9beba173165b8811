// What every Loop promises, on the ring and on the simulated one.
#include <poll.h>

#include "io/offload.h"
#include "unit/io/world.h"

namespace corehttpd::io::testing {
namespace {

enum class Which { kRing, kSim };

class LoopTest : public ::testing::TestWithParam<Which> {
 protected:
  LoopTest() {
    if (GetParam() == Which::kRing) {
      world_ = std::make_unique<RealWorld>();
    } else {
      world_ = std::make_unique<SimulatedWorld>();
    }
  }
  Loop& loop() { return world_->loop(); }
  bool run_until(const std::function<bool()>& holds) { return world_->run_until(holds); }
  // Brings a receive to its end, so that it may be destroyed.
  void stop(Collector& collector) {
    if (collector.state.idle()) return;
    const int before = collector.stops;
    loop().receive_stop(collector.state);
    ASSERT_TRUE(run_until([&] { return collector.stops == before + 1; }));
    EXPECT_TRUE(collector.state.idle());
  }

  std::unique_ptr<World> world_;
};

INSTANTIATE_TEST_SUITE_P(All, LoopTest, ::testing::Values(Which::kRing, Which::kSim),
                         [](const auto& info) {
                           return info.param == Which::kRing ? "ring" : "sim";
                         });

TEST_P(LoopTest, ReceivesUntilTheEnd) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  EXPECT_TRUE(collector.state.armed());
  EXPECT_EQ(0, collector.calls) << "nothing happens inside the call";
  peer->push("hello, ");
  ASSERT_TRUE(run_until([&] { return collector.data == "hello, "; }));
  peer->push("world");
  peer->finish();
  ASSERT_TRUE(run_until([&] { return collector.ended; }));
  EXPECT_EQ("hello, world", collector.data);
  EXPECT_FALSE(collector.state.armed());
  EXPECT_TRUE(collector.state.idle());
}

TEST_P(LoopTest, ReceivesMoreThanOneBufferInOrder) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  const std::string all = pattern(400'000);
  std::size_t pushed = 0;
  ASSERT_TRUE(run_until([&] {
    if (pushed < all.size() && collector.data.size() == pushed) {
      const std::string_view part = std::string_view(all).substr(pushed, 10'000);
      peer->push(part);
      pushed += part.size();
    }
    return collector.data.size() == all.size();
  }));
  EXPECT_EQ(all, collector.data);
  stop(collector);
}

TEST_P(LoopTest, ResetIsAReceiveError) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  peer->reset();
  ASSERT_TRUE(run_until([&] { return collector.error != 0; }));
  EXPECT_EQ(ECONNRESET, collector.error);
  EXPECT_TRUE(collector.state.idle());
}

TEST_P(LoopTest, StopIsToldOnceAndLosesNothing) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  peer->push("before");
  ASSERT_TRUE(run_until([&] { return collector.data == "before"; }));
  loop().receive_stop(collector.state);
  EXPECT_FALSE(collector.state.armed());
  EXPECT_FALSE(collector.state.idle());
  EXPECT_EQ(0, collector.stops);
  // On its way while the kernel still holds the receive: some of it may already be in a buffer when
  // the stop is seen.
  peer->push(pattern(12'000));
  ASSERT_TRUE(run_until([&] { return collector.stops == 1; }));
  EXPECT_TRUE(collector.state.idle());
  EXPECT_EQ("before", collector.data)
      << "the receiver is not called between stop and the next receive";
  peer->push("after");
  peer->finish();
  loop().receive(peer->fd(), collector.state);
  ASSERT_TRUE(run_until([&] { return collector.ended; }));
  EXPECT_EQ("before" + pattern(12'000) + "after", collector.data);
  EXPECT_EQ(1, collector.stops);
}

TEST_P(LoopTest, StopWithdrawnByReceive) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  peer->push("a");
  ASSERT_TRUE(run_until([&] { return collector.data == "a"; }));
  loop().receive_stop(collector.state);
  loop().receive(peer->fd(), collector.state);
  EXPECT_TRUE(collector.state.armed());
  peer->push("b");
  peer->finish();
  ASSERT_TRUE(run_until([&] { return collector.ended; }));
  EXPECT_EQ("ab", collector.data);
  EXPECT_EQ(0, collector.stops);
}

TEST_P(LoopTest, StopFromWithinTheReceiver) {
  auto peer = world_->connect();
  Collector collector;
  collector.on_data = [&] {
    if (collector.state.armed()) loop().receive_stop(collector.state);
  };
  loop().receive(peer->fd(), collector.state);
  peer->push("x");
  ASSERT_TRUE(run_until([&] { return collector.stops == 1; }));
  EXPECT_TRUE(collector.state.idle());
  EXPECT_EQ(1, collector.calls);
}

TEST_P(LoopTest, StopOfAnIdleStateIsTold) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  stop(collector);
  loop().receive_stop(collector.state);
  EXPECT_FALSE(collector.state.idle());
  ASSERT_TRUE(run_until([&] { return collector.stops == 2; }));
}

TEST_P(LoopTest, IdleReceiveWakesUpAgain) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  peer->push("one ");
  ASSERT_TRUE(run_until([&] { return collector.data == "one "; }));
  loop().receive_idle(collector.state);
  EXPECT_TRUE(collector.state.armed());
  // The turn in which the receive gives way to the poll.
  int turns = 0;
  ASSERT_TRUE(run_until([&] { return ++turns > 3; }));
  peer->push("two ");
  ASSERT_TRUE(run_until([&] { return collector.data == "one two "; }));
  peer->push("three");
  peer->finish();
  ASSERT_TRUE(run_until([&] { return collector.ended; }));
  EXPECT_EQ("one two three", collector.data);
}

TEST_P(LoopTest, IdleReceiveStopsAndEnds) {
  auto peer = world_->connect();
  Collector collector;
  loop().receive(peer->fd(), collector.state);
  loop().receive_idle(collector.state);
  int turns = 0;
  ASSERT_TRUE(run_until([&] { return ++turns > 3; }));
  stop(collector);
  loop().receive(peer->fd(), collector.state);
  loop().receive_idle(collector.state);
  turns = 0;
  ASSERT_TRUE(run_until([&] { return ++turns > 3; }));
  peer->finish();
  ASSERT_TRUE(run_until([&] { return collector.ended; }));
  EXPECT_EQ(1, collector.stops);
}

TEST_P(LoopTest, SendsAllInShortSteps) {
  auto peer = world_->connect();
  const std::string all = pattern(700'000);
  std::size_t sent = 0;
  std::string arrived;
  Outcome outcome;
  int sends = 0;
  ASSERT_TRUE(run_until([&] {
    if (outcome.done()) {
      EXPECT_GT(outcome.result, 0);
      sent += static_cast<std::size_t>(std::max(outcome.result, 0));
      outcome.completions = 0;
    }
    if (!outcome.pending() && sent < all.size()) {
      const std::size_t half = (all.size() - sent + 1) / 2;
      // The vectors are copied: they need not live any longer than the call.
      std::vector<iovec> vectors{
          {const_cast<char*>(all.data()) + sent, half},
          {const_cast<char*>(all.data()) + sent + half, all.size() - sent - half}};
      loop().send(peer->fd(), vectors, false, outcome);
      EXPECT_FALSE(outcome.done());
      vectors.assign(2, iovec{nullptr, 0});
      ++sends;
    }
    arrived += peer->take();
    return arrived.size() == all.size();
  }));
  EXPECT_EQ(all, arrived);
  EXPECT_GT(sends, 1);
  ASSERT_TRUE(run_until([&] { return !outcome.pending(); }));
}

TEST_P(LoopTest, SendToAVanishedPeerFails) {
  auto peer = world_->connect();
  peer->reset();
  const std::string text = "x";
  const iovec vector{const_cast<char*>(text.data()), 1};
  Outcome outcome;
  loop().send(peer->fd(), {&vector, 1}, false, outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_TRUE(outcome.result == -ECONNRESET || outcome.result == -EPIPE) << outcome.result;
}

TEST_P(LoopTest, SendOfNothingCompletes) {
  auto peer = world_->connect();
  Outcome outcome;
  loop().send(peer->fd(), {}, false, outcome);
  EXPECT_FALSE(outcome.done());
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_EQ(0, outcome.result);
}

TEST_P(LoopTest, SendsAFileToASlowReader) {
  auto peer = world_->connect();
  const std::string all = pattern(3'000'000);
  const TemporaryFile file(all);
  std::size_t sent = 0;
  std::string arrived;
  Outcome outcome;
  ASSERT_TRUE(run_until([&] {
    if (outcome.done()) {
      EXPECT_GT(outcome.result, 0);
      EXPECT_LE(outcome.result, static_cast<int>(Loop::kFileWindowBytes));
      sent += static_cast<std::size_t>(std::max(outcome.result, 0));
      outcome.completions = 0;
    }
    if (!outcome.pending() && sent < all.size()) {
      loop().send_file(peer->fd(), file.fd(), sent, all.size() - sent, outcome);
      EXPECT_FALSE(outcome.done()) << "completes from the loop, never inside the call";
    }
    arrived += peer->take();
    return arrived.size() == all.size();
  }));
  EXPECT_TRUE(all == arrived);
  ASSERT_TRUE(run_until([&] { return !outcome.pending(); }));
}

TEST_P(LoopTest, SendFileBehindTheEndOfATruncatedFileGivesZero) {
  auto peer = world_->connect();
  const TemporaryFile file(pattern(10'000));
  ASSERT_EQ(0, ftruncate(file.fd(), 100));
  Outcome outcome;
  loop().send_file(peer->fd(), file.fd(), 5000, 5000, outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_EQ(0, outcome.result);
  // Up to the end of what is left.
  std::size_t sent = 0;
  while (sent < 100) {
    Outcome rest;
    loop().send_file(peer->fd(), file.fd(), sent, 10'000, rest);
    ASSERT_TRUE(run_until([&] { return rest.done(); }));
    ASSERT_GT(rest.result, 0);
    sent += static_cast<std::size_t>(rest.result);
  }
  EXPECT_EQ(100U, sent);
}

TEST_P(LoopTest, SendFileToAVanishedPeerFails) {
  auto peer = world_->connect();
  const TemporaryFile file(pattern(10'000));
  peer->reset();
  Outcome outcome;
  loop().send_file(peer->fd(), file.fd(), 0, 10'000, outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_TRUE(outcome.result == -ECONNRESET || outcome.result == -EPIPE) << outcome.result;
}

TEST_P(LoopTest, CancelEndsAPollAndWhatIsNotPendingIsLeftAlone) {
  auto peer = world_->connect();
  Outcome outcome;
  loop().cancel(outcome);
  loop().poll(peer->fd(), POLLIN, outcome);
  loop().cancel(outcome);
  EXPECT_FALSE(outcome.done());
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  EXPECT_EQ(-ECANCELED, outcome.result);
  EXPECT_EQ(1, outcome.completions);
  loop().poll(peer->fd(), POLLIN, outcome);
  peer->push("x");
  ASSERT_TRUE(run_until([&] { return outcome.completions == 2; }));
  EXPECT_EQ(POLLIN, outcome.result & POLLIN);
}

TEST_P(LoopTest, OpensReadsAndWrites) {
  char path[] = "/tmp/corehttpd-io-test-XXXXXX";
  const int made = mkstemp(path);
  ASSERT_GE(made, 0);
  ::close(made);
  Outcome outcome;
  loop().open(path, O_RDWR | O_APPEND, 0, outcome);
  ASSERT_TRUE(run_until([&] { return outcome.done(); }));
  const int fd = outcome.result;
  ASSERT_GE(fd, 0);
  EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD) & FD_CLOEXEC);
  const std::string line = "a line for the log\n";
  for (std::size_t at = 0; at < 2 * line.size();) {
    Outcome written;
    const std::size_t from = at % line.size();
    loop().write(fd, line.data() + from, line.size() - from, UINT64_MAX, written);
    ASSERT_TRUE(run_until([&] { return written.done(); }));
    ASSERT_GT(written.result, 0);
    at += static_cast<std::size_t>(written.result);
  }
  std::string read(2 * line.size(), '\0');
  for (std::size_t at = 0; at < read.size();) {
    Outcome got;
    loop().read(fd, read.data() + at, read.size() - at, at, got);
    ASSERT_TRUE(run_until([&] { return got.done(); }));
    ASSERT_GT(got.result, 0);
    at += static_cast<std::size_t>(got.result);
  }
  EXPECT_EQ(line + line, read);
  Outcome behind;
  char byte = 0;
  loop().read(fd, &byte, 1, 1000, behind);
  ASSERT_TRUE(run_until([&] { return behind.done(); }));
  EXPECT_EQ(0, behind.result);
  ::close(fd);
  unlink(path);
  Outcome missing;
  loop().open(path, O_RDONLY, 0, missing);
  ASSERT_TRUE(run_until([&] { return missing.done(); }));
  EXPECT_EQ(-ENOENT, missing.result);
}

struct NamedTimer : Timer {
  NamedTimer(std::string& order, char n)
      : Timer([](Timer& t) {
          auto& self = static_cast<NamedTimer&>(t);
          EXPECT_FALSE(self.scheduled());
          self.order += self.name;
        }),
        order(order),
        name(n) {}
  std::string& order;
  char name;
};

TEST_P(LoopTest, TimersFireInOrderMoveAndCancel) {
  std::string order;
  NamedTimer a(order, 'a'), b(order, 'b'), c(order, 'c'), d(order, 'd'), e(order, 'e');
  const Milliseconds start = loop().clock().now_ms();
  loop().schedule(c, 30);
  loop().schedule(a, 2);
  loop().schedule(b, 15);
  loop().schedule(d, 1);
  loop().schedule(e, 25);
  loop().schedule(a, 20);  // Later: behind b.
  loop().schedule(c, 5);   // Earlier: the first.
  loop().cancel(d);
  {
    NamedTimer gone(order, 'x');
    loop().schedule(gone, 3);
  }
  EXPECT_FALSE(d.scheduled());
  ASSERT_TRUE(run_until([&] { return !e.scheduled(); }));
  EXPECT_EQ("cbae", order);
  EXPECT_GE(loop().clock().now_ms(), start + 25);
}

TEST_P(LoopTest, TurnTasksRunAfterCompletionsAndKeepTheLoopAwake) {
  static std::string order;
  order.clear();
  struct Task : TurnTask {
    explicit Task(Loop& l) : TurnTask([](TurnTask& t) { static_cast<Task&>(t).go(); }), loop(l) {}
    void go() {
      order += 't';
      if (--left > 0) again.push_back('x'), loop.turn().post(*this);
    }
    Loop& loop;
    std::string again;
    int left = 200;  // More than one turn's bound of rounds.
  } task(loop());
  Outcome outcome;
  loop().send(world_->connect()->fd(), {}, false, outcome);
  loop().turn().post(task);
  ASSERT_TRUE(run_until([&] { return task.left == 0 && outcome.done(); }));
  EXPECT_EQ(200U, order.size());
}

struct Task final : OffloadTask {
  void run() noexcept override {
    thread = pthread_self();
    ++runs;
  }
  void done() override { ++dones; }
  pthread_t thread{};
  int runs = 0;
  int dones = 0;
};

TEST_P(LoopTest, OffloadRunsAndReportsOnTheLoop) {
  Task tasks[20];
  for (Task& task : tasks) ASSERT_TRUE(loop().offload(task));
  EXPECT_EQ(0, tasks[0].dones);
  ASSERT_TRUE(run_until([&] {
    return std::all_of(std::begin(tasks), std::end(tasks),
                       [](const Task& t) { return t.dones == 1; });
  }));
  for (const Task& task : tasks) {
    EXPECT_EQ(1, task.runs);
    EXPECT_EQ(GetParam() == Which::kSim, pthread_equal(pthread_self(), task.thread) != 0);
  }
}

TEST_P(LoopTest, OffloadQueueIsBounded) {
  std::vector<Task> tasks(Offload::kTasksMax + 1);
  for (std::size_t i = 0; i < Offload::kTasksMax; ++i) ASSERT_TRUE(loop().offload(tasks[i]));
  EXPECT_FALSE(loop().offload(tasks.back()));
  ASSERT_TRUE(run_until([&] {
    return std::all_of(tasks.begin(), tasks.end() - 1, [](const Task& t) { return t.dones == 1; });
  }));
  EXPECT_TRUE(loop().offload(tasks.back()));
  ASSERT_TRUE(run_until([&] { return tasks.back().dones == 1; }));
}

}  // namespace
}  // namespace corehttpd::io::testing
