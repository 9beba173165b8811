#include "server/generation.h"

#include <gtest/gtest.h>

namespace corehttpd::server {
namespace {

TEST(Generation, RespawnPausesDoubleWithShortLives) {
  Generation generation;
  EXPECT_EQ(generation.pause_before_respawn(0, 5000), 0);  // Once in a while is no pattern.
  EXPECT_EQ(generation.pause_before_respawn(0, 10), 1000);
  EXPECT_EQ(generation.pause_before_respawn(0, 10), 2000);
  EXPECT_EQ(generation.pause_before_respawn(1, 10), 1000);  // Each worker by itself.
  EXPECT_EQ(generation.pause_before_respawn(0, 5000), 4000);
  for (int i = 0; i < 10; ++i) generation.pause_before_respawn(0, 10);
  EXPECT_EQ(generation.pause_before_respawn(0, 10), 32000);
  EXPECT_EQ(generation.pause_before_respawn(0, 60'000), 0);
  EXPECT_EQ(generation.pause_before_respawn(0, 10), 1000);
}

TEST(Generation, IsReadyWhenEveryWorkerIs) {
  Generation generation;
  generation.workers.resize(2);
  EXPECT_FALSE(generation.all_ready());
  generation.workers[0].phase = WorkerProcess::Phase::kAccepting;
  EXPECT_FALSE(generation.all_ready());
  generation.workers[1].phase = WorkerProcess::Phase::kDraining;
  EXPECT_TRUE(generation.all_ready());
  EXPECT_FALSE(generation.all_draining());
  generation.respawns.push_back({0, 0});
  EXPECT_FALSE(generation.all_ready());
}

}  // namespace
}  // namespace corehttpd::server
