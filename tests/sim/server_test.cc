// The whole worker, from accepted connection to access log, on the simulated loop: what it answers
// is known beforehand (model.h), what happens to it is not.
//
// What the world does, chosen by the seed:
// - Transfers are short, completions late and in another order (io/sim_loop.h). Clients push their
//   bytes in pieces cut anywhere, also within heads, chunk sizes, prefaces and frames.
// - Clients pipeline, read slowly through small windows, stop reading, stop writing in the middle
//   of a head or body, shut their side down, leave or reset at any moment, send what is no request;
//   on HTTP/2 they also reset streams and give back windows byte by byte.
// - In some runs transfers find the connection reset, and clocks leap, the wall clock backwards
// too.
// - A FastCGI origin answers in records of any size, at any pace.
// - In half of the runs a graceful end begins at some moment; in some of these the worker's
//   patience ends as well and everything is closed at once.
//
// What must hold:
// - An answer that arrives whole is byte for byte the right one for its request, and names it; of
//   one that breaks off, what has arrived is right. Answers of an HTTP/1 connection come in order.
// - Answers are missing or broken only where a reset, a stalled reader, the client's own leaving or
//   the fast end explains it. A graceful end breaks nothing: HTTP/1 connections end behind an
//   answer that said so, HTTP/2 streams up to the last GOAWAY's end well.
// - Everything ends, within a bounded number of turns, and a graceful end long before the
//   timeouts of idle connections.
// - Each request that was started is logged once. In the end no connection, exchange, block,
//   descriptor or operation is left, and the gauges are 0. Nothing is logged at crit or above.
#include <dirent.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "sim/fastcgi_origin.h"
#include "sim/h1_client.h"
#include "sim/h2_client.h"
#include "sim/sim_server.h"
#include "upstream/shared_state.h"

namespace corehttpd::sim {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

// Independent of each other and of what the loop itself draws from the seed.
std::uint64_t draw(std::uint64_t seed, std::uint64_t which, std::uint64_t bound) {
  std::uint64_t z = (seed + which * 1'000'003) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 32)) * 0x94d049bb133111eb;
  return (z ^ (z >> 29)) % bound;
}

io::SimOptions options_of(std::uint64_t seed) {
  io::SimOptions options{.seed = seed};
  options.short_transfers = draw(seed, 1, 5) != 0;
  options.delays = draw(seed, 2, 7) != 0;
  options.resets_per_mille = draw(seed, 3, 3) == 0 ? 2 : 0;
  options.clock_leaps_per_mille = draw(seed, 4, 4) == 0 ? 5 : 0;
  return options;
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : seed_(seed), server_(options_of(seed)), loop_(server_.loop()), origin_(loop_) {
    weather_.resets = options_of(seed).resets_per_mille != 0;
    weather_.leaps = options_of(seed).clock_leaps_per_mille != 0;
    clients_max_ = 1 + loop_.random(10);
    if (seed % 2 == 0) drain_at_ = static_cast<int>(loop_.random(600));
    if (drain_at_ >= 0 && draw(seed, 5, 4) == 0)
      close_at_ = drain_at_ + static_cast<int>(loop_.random(300));
  }
  void go() {
    int turn = 0;
    while (turn < kTurnsMax && !done()) {
      ++turn;
      disturb(turn);
      const bool active = act();
      if (active) {
        loop_.run_until_blocked(1 + static_cast<int>(loop_.random(3)));
      } else {
        loop_.run_once();
      }
    }
    EXPECT_TRUE(done()) << describe();
    if (!done()) return;
    check_drain();
    server_.finish();
    for (const auto& client : clients_) {
      for (const std::string& target : client->answered()) {
        EXPECT_EQ(server_.log().lines_of(target), 1) << target;
      }
    }
  }

 private:
  static constexpr int kTurnsMax = 100'000;
  // Below the timeouts of idle connections; lingering and its like are within it.
  static constexpr Milliseconds kDrainMax = 120'000;

  bool done() const {
    return clients_.size() == clients_max_ && server_.connections() == 0 &&
           std::ranges::all_of(clients_, [](const auto& client) { return client->over(); });
  }
  void disturb(int turn) {
    if (clients_.size() < clients_max_ && loop_.random(20) == 0) add_client();
    const bool due = drain_at_ >= 0 && turn >= drain_at_;
    if (due && !std::exchange(weather_.draining, true)) {
      drained_ms_ = loop_.clock().now_ms();
      server_.drain();
    }
    if (close_at_ >= 0 && turn >= close_at_ && !std::exchange(weather_.closed_now, true))
      server_.close_now();
    if (weather_.draining) {
      clients_max_ = clients_.size();
      if (server_.accepting_stopped()) {
        for (const auto& client : clients_) client->give_up_waiting();
      }
    }
  }
  void add_client() {
    io::SimPeer& peer = server_.connect();
    origin_.ignore(peer);
    // The id's end must not make one client's the beginning of another's.
    const std::string tag = fmt::format("s{}c{}_", seed_, clients_.size());
    switch (loop_.random(9)) {
      case 0:
        clients_.push_back(std::make_unique<GarbageClient>(loop_, peer, weather_, tag));
        break;
      case 1:
      case 2:
      case 3:
      case 4:
        clients_.push_back(std::make_unique<H2Client>(loop_, peer, weather_, tag));
        break;
      default:
        clients_.push_back(std::make_unique<H1Client>(loop_, peer, weather_, tag));
    }
  }
  bool act() {
    origin_.act();
    bool active = origin_.active() || clients_.size() < clients_max_;
    for (const auto& client : clients_) {
      client->act();
      active |= !client->over() && client->active();
    }
    return active || (drain_at_ >= 0 && !weather_.draining);
  }
  void check_drain() {
    if (!weather_.draining) return;
    const bool stalled =
        std::ranges::any_of(clients_, [](const auto& client) { return client->stalls(); });
    const Milliseconds took = loop_.clock().now_ms() - drained_ms_;
    if (!stalled && !weather_.leaps) {
      EXPECT_LT(took, kDrainMax) << describe();
    }
  }
  std::string describe() const {
    std::string text = fmt::format(
        "{} of {} clients, {} connections, {} operations, {} ms{}{};", clients_.size(),
        clients_max_, server_.connections(), loop_.outstanding(),
        static_cast<io::Loop&>(loop_).clock().now_ms(), weather_.draining ? ", draining" : "",
        origin_.active() ? ", origin active" : "");
    for (const auto& client : clients_) {
      if (client->over()) continue;
      text += " " + client->describe() + (client->active() ? ", active;" : ";");
    }
    return text;
  }

  std::uint64_t seed_;
  SimServer server_;
  io::SimLoop& loop_;
  FastcgiOrigin origin_;
  Weather weather_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::size_t clients_max_;
  int drain_at_ = -1, close_at_ = -1;  // Turns.
  Milliseconds drained_ms_ = 0;
};

class ServerSimulation : public ::testing::TestWithParam<int> {};
// For a longer search: CORE_SIM_SEEDS=10000 build/debug/tests/sim.
int last_seed() {
  const char* wanted = std::getenv("CORE_SIM_SEEDS");
  return wanted == nullptr ? 100 : std::atoi(wanted);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ServerSimulation, ::testing::Range(1, last_seed() + 1));

TEST_P(ServerSimulation, AnswersRightAndLeavesNothing) {
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  site_files();
  // What belongs to the process, whatever its configurations come and go, stays.
  auto& counts = upstream::BackendCountsStore::of_process();
  ASSERT_TRUE(counts.open() && counts.counts_of("any"));
  const std::size_t before = open_descriptors();
  Simulation(static_cast<std::uint64_t>(GetParam())).go();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace corehttpd::sim
