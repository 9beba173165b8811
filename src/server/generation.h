// A generation: one compiled configuration and the workers that serve it. A reload starts a new one
// beside the old; the old drains when all workers of the new one are ready.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "server/process.h"

namespace corehttpd::server {

struct WorkerProcess {
  enum class Phase : std::uint8_t { kStarting, kAccepting, kDraining };
  pid_t pid = -1;
  int channel = -1;  // The master's end.
  std::uint32_t slot = 0;
  std::uint32_t number = 0;  // From 0, within the generation.
  Milliseconds started_ms = 0;
  Phase phase = Phase::kStarting;  // As it has told us.
  std::uint64_t certificates = 0;  // The version of the tls::Store that it has.
};

// A worker that died and is to be replaced.
struct Respawn {
  std::uint32_t number;
  Milliseconds due_ms;
};

struct Generation {
  enum class State : std::uint8_t {
    kStarting,  // Its workers are not all ready.
    kServing,   // The one in force; its dead workers are replaced.
    kDraining,  // Told to finish what it has.
    kEnded,     // Told to end at once.
  };
  std::uint64_t number = 0;
  State state = State::kStarting;
  std::unique_ptr<conf::Configuration> configuration;
  Identity identity;
  std::vector<WorkerProcess> workers;
  std::vector<Respawn> respawns;
  std::vector<std::uint32_t> failures;  // By worker number: short lives in a row.
  Milliseconds started_ms = 0;
  std::time_t started_at = 0;

  bool all_ready() const;
  // No worker accepts any more.
  bool all_draining() const;
  // To every worker.
  void signal(int signal) const;
  // How long to wait before worker number, which lived for lived_ms, is started again: not at all
  // after a long life; else a second, doubled with each short life up to half a minute.
  Milliseconds pause_before_respawn(std::uint32_t number, Milliseconds lived_ms);
};

// "serving", as the status says it.
const char* to_string(Generation::State state);

}  // namespace corehttpd::server
