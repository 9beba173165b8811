// What the master tells of itself: to "corehttpd --status", as text and as JSON, and in one line to
// the service manager. The JSON's members are documented in docs/formats.md.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "corehttpd/http/services.h"

namespace corehttpd::server {

// How a reload or an upgrade ended.
struct Outcome {
  std::time_t at = 0;  // 0: there was none.
  bool taken = false;
  std::string reason;  // Why not.
};

struct StatusFacts {
  struct Worker {
    pid_t pid;
    bool ready;
    std::int64_t age_seconds;
  };
  struct Generation {
    std::uint64_t number;
    const char* state;
    std::time_t started_at;
    std::vector<Worker> workers;
  };
  // A site that answers 503, or whose TLS is out, until its configuration is mended.
  struct DegradedSite {
    std::string name, reason, file;
    std::uint32_t line;
  };
  pid_t master = 0;
  std::time_t started_at = 0;
  std::time_t now = 0;
  std::string configuration;
  std::uint64_t generation = 0;  // The serving one.
  std::vector<Generation> generations;
  std::size_t older_masters = 0;
  http::Counters::Snapshot counters{};
  Outcome last_reload, last_upgrade;
  std::vector<DegradedSite> degraded;
};

std::string status_text(const StatusFacts& facts);
std::string status_json(const StatusFacts& facts);
// "generation 3, 2 workers; last reload refused: …".
std::string status_line(const StatusFacts& facts);

}  // namespace corehttpd::server
