#include "server/generation.h"

#include <algorithm>
#include <csignal>

namespace corehttpd::server {

bool Generation::all_ready() const {
  return respawns.empty() && std::all_of(workers.begin(), workers.end(), [](const auto& w) {
           return w.phase != WorkerProcess::Phase::kStarting;
         });
}

bool Generation::all_draining() const {
  return std::all_of(workers.begin(), workers.end(),
                     [](const auto& w) { return w.phase == WorkerProcess::Phase::kDraining; });
}

void Generation::signal(int signal) const {
  for (const WorkerProcess& worker : workers) ::kill(worker.pid, signal);
}

Milliseconds Generation::pause_before_respawn(std::uint32_t number, Milliseconds lived_ms) {
  constexpr Milliseconds kShortLife = 1000;
  // A crash that takes a while to come must not reset the count each time.
  constexpr Milliseconds kSoundLife = 60'000;
  constexpr std::uint32_t kDoublingsMax = 5;
  if (failures.size() <= number) failures.resize(number + 1);
  std::uint32_t& count = failures[number];
  if (lived_ms >= kSoundLife) count = 0;
  if (lived_ms >= kShortLife && count == 0) return 0;
  return Milliseconds{1000} << std::min(count++, kDoublingsMax);
}

const char* to_string(Generation::State state) {
  switch (state) {
    case Generation::State::kStarting:
      return "starting";
    case Generation::State::kServing:
      return "serving";
    case Generation::State::kDraining:
      return "draining";
    case Generation::State::kEnded:
      return "ending";
  }
  return "";
}

}  // namespace corehttpd::server
