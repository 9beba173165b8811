// The simulated loop's turn, time and randomness; sim_operations.cc says what each event does.
#include "corehttpd/io/sim_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "corehttpd/base/check.h"
#include "io/sim_event.h"
#include "io/timer_wheel.h"

namespace corehttpd::io {

// Virtual time begins at a fixed moment, so that dates in answers are the same in every run:
// 2026-11-30 17:47:07 UTC.
constexpr std::int64_t kWallStart = 1'796'060'827;
constexpr Milliseconds kMonotonicStart = 1'000'000;

SimLoop::SimLoop(const SimOptions& options)
    : options_(options),
      random_state_(options.seed),
      wall_us_(kWallStart * 1'000'000),
      now_(kMonotonicStart),
      wheel_(std::make_unique<TimerWheel>(kMonotonicStart)) {
  clock_.set(now_, wall_us_);
}

SimLoop::~SimLoop() {
  for (const auto& peer : peers_) {
    if (peer->other_fd_ >= 0) close(peer->other_fd_);
  }
}

std::uint64_t SimLoop::random(std::uint64_t bound) {
  // SplitMix64 (Steele, Lea, Flood 2014): every seed is a good one, neighbouring ones too.
  random_state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = random_state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return bound == 0 ? 0 : z % bound;
}

std::size_t SimLoop::portion(std::size_t size) {
  if (!options_.short_transfers || size <= 1) return size;
  switch (random(4)) {
    case 0:
      return 1;
    case 1:
      return 1 + random(size);
    case 2:
      return 1 + random(std::min<std::size_t>(size, 16));
    default:
      return size;
  }
}

std::string SimPeer::take() { return std::exchange(outbound_, {}); }

SimPeer& SimLoop::make_peer() {
  peers_.push_back(std::make_unique<SimPeer>());
  peers_.back()->window_bytes_ = options_.window_bytes;
  return *peers_.back();
}

SimPeer& SimLoop::connect_pair() {
  int pair[2];
  CORE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
  SimPeer& peer = make_peer();
  peer.fd_ = pair[0];
  peer.other_fd_ = pair[1];
  by_fd_[peer.fd_] = &peer;
  return peer;
}

int SimLoop::listen() {
  // Any descriptor will do: it only has to be one that nobody else gets.
  const int fd = eventfd(0, EFD_CLOEXEC);
  CORE_CHECK(fd >= 0);
  listeners_[fd].clear();
  return fd;
}

SimPeer& SimLoop::connect_to(int listener) {
  SimPeer& peer = make_peer();
  listeners_[listener].push_back(&peer);
  return peer;
}

SimPeer* SimLoop::peer_of(int fd) {
  const auto found = by_fd_.find(fd);
  return found == by_fd_.end() ? nullptr : found->second;
}

void SimLoop::watch_closes() {
  for (const auto& peer : peers_) {
    if (peer->other_fd_ < 0) continue;
    pollfd watched{peer->other_fd_, POLLRDHUP, 0};
    if (::poll(&watched, 1, 0) <= 0) continue;
    if ((watched.revents & (POLLRDHUP | POLLHUP)) != 0) peer->ended_ = true;
    if ((watched.revents & POLLHUP) != 0) {
      close(peer->other_fd_);
      peer->other_fd_ = -1;
    }
  }
}

void SimLoop::leap_clocks() {
  if (!chance(options_.clock_leaps_per_mille)) return;
  constexpr std::int64_t kDayUs = 86'400'000'000;
  // A suspended machine, or somebody setting the time.
  if (random(2) == 0) {
    const auto leap = static_cast<Milliseconds>(random(10'000));
    now_ += leap;
    wall_us_ += leap * 1000;
  } else {
    wall_us_ += static_cast<std::int64_t>(random(2 * kDayUs)) - kDayUs;
  }
}

std::unique_ptr<SimLoop::Event> SimLoop::take_event(std::uint64_t id) {
  const auto found = std::find_if(events_.begin(), events_.end(),
                                  [id](const auto& event) { return event->id == id; });
  if (found == events_.end()) return nullptr;
  std::unique_ptr<Event> event = std::move(*found);
  events_.erase(found);
  return event;
}

bool SimLoop::happen_some() {
  std::vector<std::uint64_t> candidates;
  for (const auto& event : events_) {
    if (event->not_before <= now_ && possible(*event)) candidates.push_back(event->id);
  }
  if (options_.delays && !candidates.empty()) {
    for (std::size_t i = candidates.size(); i > 1; --i)
      std::swap(candidates[i - 1], candidates[random(i)]);
    candidates.resize(1 + random(candidates.size()));
  }
  bool any = false;
  for (const std::uint64_t id : candidates) {
    // An earlier one of this turn may have withdrawn it, or used up what it was about.
    const auto found = std::find_if(events_.begin(), events_.end(),
                                    [id](const auto& event) { return event->id == id; });
    if (found == events_.end() || !possible(**found)) continue;
    happen(take_event(id));
    any = true;
  }
  return any;
}

Milliseconds SimLoop::next_delayed() {
  Milliseconds next = TimerWheel::kNever;
  for (const auto& event : events_) {
    if (possible(*event)) next = std::min(next, event->not_before);
  }
  return next;
}

bool SimLoop::turn(bool run_ahead) {
  watch_closes();
  leap_clocks();
  clock_.set(now_, wall_us_);
  bool progress = std::exchange(woken_, false) || !turn_.empty();
  progress |= happen_some();
  progress |= wheel_->next() <= now_;
  wheel_->advance(now_);
  turn_.run();
  progress |= !turn_.empty();
  if (progress) {
    quiet_ = false;
    return true;
  }
  // A close may have made something possible in this very turn.
  Milliseconds next = next_delayed();
  if (run_ahead) next = std::min(next, wheel_->next());
  quiet_ = next == TimerWheel::kNever;
  if (quiet_) return false;
  const Milliseconds ahead = std::max<Milliseconds>(next - now_, 0);
  now_ += ahead;
  wall_us_ += ahead * 1000;
  return true;
}

void SimLoop::run_once() {
  if (!turn(true)) stop();
}

bool SimLoop::run_until(bool run_ahead, int turns_max) {
  for (int i = 0; i < turns_max; ++i) {
    if (!turn(run_ahead)) return true;
  }
  return false;
}

bool SimLoop::run_until_quiet(int turns_max) { return run_until(true, turns_max); }
bool SimLoop::run_until_blocked(int turns_max) { return run_until(false, turns_max); }

void SimLoop::schedule(Timer& timer, Milliseconds after_ms) {
  wheel_->schedule(timer, clock_.now_ms() + std::max<Milliseconds>(after_ms, 0));
}

void SimLoop::cancel(Timer& timer) { wheel_->cancel(timer); }

}  // namespace corehttpd::io
