// A worker: drops its privileges, makes its ring, accepts and serves until told to stop.
#pragma once

#include <cstdint>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/route/tree.h"
#include "server/counters.h"
#include "server/process.h"

namespace corehttpd::server {

// Exit status of a worker that cannot work at all (no io_uring): replacing it would not help.
inline constexpr int kFatalExit = 2;

struct WorkerSetup {
  conf::Configuration& configuration;
  std::vector<int> listeners;  // One descriptor per route::Tree::listeners().
  SharedCounters& counters;
  std::uint32_t counter_slot = 0;
  std::uint32_t number = 0;  // From 0, within the generation.
  Identity identity;
  int channel = -1;  // From the master; -1 without one (master_process off).
};

// Never returns before the worker's end; the value is the process's exit status.
int run_worker(const WorkerSetup& setup);

}  // namespace corehttpd::server
