#include "upstream/backends.h"

#include <fmt/format.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"
#include "upstream/php_fpm.h"

namespace corehttpd::upstream {
namespace {

// Long enough for the next click of a busy site, short enough not to pin PHP's workers.
constexpr Milliseconds kIdleMs = 1000;
// A worker whose queue's head has waited by so much and a quarter longer than ours gets our place,
// whatever it has. Less would have connections go to and fro for nothing.
constexpr Milliseconds kPatienceMs = 20;
constexpr Milliseconds kReapMs = 500;
// How long the end of a connection to an ondemand pool is waited for: its child may be busy with
// what a script does behind its answer (fastcgi_finish_request).
constexpr Milliseconds kFarewellMs = 10'000;
constexpr const char* kUsualFiles = "/etc/php/*/fpm/pool.d/*.conf";

// A unix socket may be named by a link to it, as Debian's /run/php/php-fpm.sock, which may not be
// there yet when we start: then its alternative tells.
io::Address real_address(const io::Address& address) {
  if (!address.is_unix()) return address;
  std::string path = address.to_string().substr(5);
  for (int links = 0; links < 8; ++links) {
    char target[sizeof(sockaddr_un::sun_path)];
    ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    if (length < 0 && errno == ENOENT) {
      const std::string alternative = "/etc/alternatives/" + path.substr(path.rfind('/') + 1);
      length = ::readlink(alternative.c_str(), target, sizeof(target));
    }
    if (length <= 0) break;
    const std::string_view to(target, static_cast<std::size_t>(length));
    path = to.front() == '/' ? std::string(to) : path.substr(0, path.rfind('/') + 1).append(to);
  }
  return io::parse_address("unix:" + path, 0).value_or(address);
}

}  // namespace

Backend::Backend(std::string name, std::uint32_t capacity, Milliseconds idle_ms)
    : name_(std::move(name)),
      capacity_(capacity),
      idle_ms_(idle_ms),
      idle_([](void* self) { static_cast<Backend*>(self)->give_back(nullptr); }, this),
      leaving_([](void* self) { static_cast<Backend*>(self)->give_back(nullptr); }, this),
      abandoned_([](void* self) { static_cast<Backend*>(self)->give_back(nullptr); }, this),
      dispatch_([](TurnTask& t) { static_cast<Task&>(t).backend.dispatch(); }, *this),
      patience_([](io::Timer& t) { static_cast<Patience&>(t).backend.on_patience(); }, *this) {}

Backend::~Backend() {
  idle_.clear();
  leaving_.clear();
  abandoned_.clear();
}

void Backend::attach(io::Loop& loop) {
  if (loop_ != nullptr) return;
  loop_ = &loop;
  slot_ = shared_ == nullptr ? kSlotsMax : shared_->slot();
  if (slot_ == kSlotsMax || counts_ == nullptr) {
    // More workers than slots, or no shared memory: counted by this worker alone.
    private_counts_ = std::make_unique<BackendCounts>();
    counts_ = private_counts_.get();
    counts_->slots = 1;
    slot_ = 0;
    return;
  }
  shared_->watch(loop, *this);
}

bool Backend::reserve() {
  std::uint32_t total = counts().total;
  while (total < capacity_) {
    if (!counts().total.compare_exchange_weak(total, total + 1)) continue;
    ++own().used;
    return true;
  }
  return false;
}

Backend::Place Backend::acquire(io::Loop& loop, Waiter& waiter, std::uint32_t queue_max, bool fresh,
                                OriginConnection*& reused) {
  attach(loop);
  if (waiting_ == 0) {
    std::size_t dead = 0;
    reused = fresh ? nullptr : idle_.take(nullptr, dead);
    if (reused != nullptr || dead > 0) {
      // A dead connection's place serves for the one that takes its place.
      if (reused == nullptr) --dead;
      for (; dead > 0; --dead) release_place();
      publish();
      return reused != nullptr ? Place::kReused : Place::kOpen;
    }
    if (reserve() || (reap() && reserve())) return Place::kOpen;
    if (fresh && idle_.drop_oldest()) {
      publish();
      return Place::kOpen;
    }
  }
  if (waiting_ >= queue_max) {
    if (!leaving_.drop_oldest()) return Place::kFull;
    if (waiting_ == 0) return Place::kOpen;
    ++granted_;  // For who has waited longest; this one stands at the end, where there is room now.
  }
  waiter.since_ms = loop.clock().now_ms();
  waiters_.push_back(waiter);
  ++waiting_;
  publish();
  wake_holders();
  if (!patience_.scheduled()) loop.schedule(patience_, kReapMs);
  // A place may have become free between the look and the announcement.
  loop.turn().post(dispatch_);
  return Place::kWait;
}

void Backend::on_patience() {
  if (waiting_ == 0) return;
  loop_->schedule(patience_, kReapMs);
  if (reap()) dispatch();
}

// Whether there may be places of workers that have ended; after each reload there are.
bool Backend::reap() {
  if (shared_ == nullptr || private_counts_ != nullptr) return false;
  const Milliseconds now = loop_->clock().now_ms();
  if (now - reaped_ms_ < kReapMs) return false;
  reaped_ms_ = now;
  shared_->reap();
  return true;
}

void Backend::leave(Waiter& waiter) {
  if (!waiter.linked()) return;
  waiter.unlink();
  --waiting_;
  publish();
  loop_->turn().post(dispatch_);  // A place that was left to it goes on.
}

void Backend::give_back(OriginConnection* connection) {
  CORE_DCHECK(own().used > 0);
  const std::size_t other = neediest();
  const bool wanted = waiting_ > 0 || idle_ms_ > 0;
  if (connection != nullptr && (other != SIZE_MAX || !wanted) && idle_ms_ == 0) {
    // A child is free for a new connection only when it has closed this one. Before that php-fpm
    // would start one more, or find that it has as many as it may.
    connection->end_sending();
    leaving_.keep(*loop_, *connection, kFarewellMs);
    return publish();
  }
  if (connection != nullptr && (other != SIZE_MAX || !wanted)) {
    connection->close();
    connection = nullptr;
  }
  if (connection != nullptr) {
    idle_.keep(*loop_, *connection, std::max<Milliseconds>(idle_ms_, 1));
    publish();
    // Somebody may have begun to wait before our idle connection could be seen.
    if (neediest() != SIZE_MAX) loop_->turn().post(dispatch_);
  } else {
    publish();  // It may have been an idle one, which nobody can have any more.
    if (other != SIZE_MAX) {
      leave_place_to(other);
    } else {
      release_place();
    }
  }
  if (waiting_ > 0) loop_->turn().post(dispatch_);
}

// A script that nobody waits for any more occupies its child until it says something or ends.
void Backend::keep_until_end(OriginConnection& connection, Milliseconds timeout) {
  abandoned_.keep(*loop_, connection, timeout);
  publish();
}

void Backend::leave_place_to(std::size_t slot) {
  BackendSlot& to = counts().slot[slot];
  --own().used;
  ++to.used;
  ++to.granted;
  shared_->wake(slot);
}

void Backend::release_place() {
  --own().used;
  --counts().total;
  // Whoever began to wait meanwhile has not seen it.
  for (std::size_t i = 0; i < counts().slots; ++i) {
    if (i != slot_ && counts().slot[i].waiting > counts().slot[i].granted) shared_->wake(i);
  }
}

std::size_t Backend::neediest() const {
  const std::uint32_t slots = counts_->slots;
  std::size_t best = SIZE_MAX;
  for (std::size_t i = 0; i < slots; ++i) {
    const BackendSlot& other = counts_->slot[i];
    if (i == slot_ || other.waiting <= other.granted) continue;
    if (waiting_ > 0) {
      const bool poorer = counts_->slot[slot_].used > other.used + 1;
      const bool earlier =
          other.oldest_ms + kPatienceMs + waiting_ms() / 4 < counts_->slot[slot_].oldest_ms;
      if (!poorer && !earlier) continue;
    }
    if (best == SIZE_MAX || other.oldest_ms < counts_->slot[best].oldest_ms) best = i;
  }
  return best;
}

void Backend::publish() {
  own().waiting = static_cast<std::uint32_t>(waiting_);
  // Those that our own requests are about to get are not to be had.
  own().idle = waiting_ > 0 ? 0 : static_cast<std::uint32_t>(idle_.size());
  if (waiting_ > 0) own().oldest_ms = waiters_.front().since_ms;
}

void Backend::wake_holders() {
  for (std::size_t i = 0; i < counts().slots; ++i) {
    if (i != slot_ && counts().slot[i].idle > 0) shared_->wake(i);
  }
}

void Backend::dispatch() {
  granted_ += own().granted.exchange(0);
  std::size_t dead = 0;
  while (waiting_ > 0) {
    OriginConnection* connection = idle_.take(nullptr, dead, true);
    if (connection == nullptr) {
      if (dead > 0) {
        --dead;
      } else if (granted_ > 0) {
        --granted_;
      } else if (!reserve()) {
        break;
      }
    }
    Waiter* waiter = waiters_.pop_front();
    --waiting_;
    publish();
    waiter->on_place(connection);
  }
  for (; dead > 0; --dead) release_place();
  for (; granted_ > 0; --granted_) {
    const std::size_t other = neediest();
    if (other != SIZE_MAX) {
      leave_place_to(other);
    } else {
      release_place();
    }
  }
  while (idle_.size() > 0) {
    const std::size_t other = neediest();
    if (other == SIZE_MAX) break;
    idle_.drop_oldest();
    leave_place_to(other);
  }
  publish();
}

std::uint32_t Backend::in_use() const { return counts_ == nullptr ? 0 : counts_->total.load(); }

Milliseconds Backend::waiting_ms() const {
  if (waiting_ == 0) return 0;
  return loop_->clock().now_ms() - const_cast<List<Waiter>&>(waiters_).front().since_ms;
}

// --- Of a configuration.

Backend* Backends::add(std::string name, std::string id, std::uint32_t capacity,
                       Milliseconds idle_ms, SharedState& shared) {
  Backend& backend =
      *list_.emplace_back(std::make_unique<Backend>(std::move(name), capacity, idle_ms));
  backend.shared_ = &shared;
  shared.add_backend(std::move(id), backend.counts_);
  return &backend;
}

Backend* Backends::at(const io::Address& address) const {
  for (const Known& known : known_) {
    if (known.address == address) return known.backend;
  }
  for (const Known& known : known_) {
    if (known.everywhere && !address.is_unix() && known.address.port() == address.port()) {
      return known.backend;
    }
  }
  return nullptr;
}

Backend* Backends::at_link(const io::Address& address) const {
  if (known_.empty()) return nullptr;
  if (Backend* found = at(address); found != nullptr || !address.is_unix()) return found;
  return at(real_address(address));
}

void Backends::link_group(Group& group, SharedState& shared) {
  for (const Peer& constant : group.peers) {
    // The servers are still ours: nobody has asked for one yet.
    Peer& peer = const_cast<Peer&>(constant);
    if (peer.unresolved) continue;
    if (peer.max_conns > 0) {
      if (group.queue_max > 0) {
        // The group's own share, whoever else passes to that server.
        std::string id = fmt::format("{} {} {}", group.name, peer.name, &peer - group.peers.data());
        peer.backend = add(std::string(peer.name), std::move(id), peer.max_conns,
                           group.keepalive.connections > 0 ? kIdleMs : 0, shared);
      }
    } else if (peer.automatic) {
      peer.backend = at_link(peer.address);
    }
    if (peer.backend != nullptr) peer.backend->named_ = true;
  }
}

void Backends::link(conf::Compiler& compiler, SharedState& shared) {
  Groups& groups = compiler.object_or_make<Groups>();
  if (groups.all().empty() && !dynamic) return;
  if (patterns.empty()) patterns.emplace_back(kUsualFiles);
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) continue;  // "off"
    for (FpmPool& pool : read_fpm_pools(pattern)) {
      if (at(pool.address) != nullptr) continue;
      Backend* backend = add(std::move(pool.name), pool.address.to_string(), pool.children_max,
                             pool.on_demand ? Milliseconds{0} : kIdleMs, shared);
      backend->status_path_ = std::move(pool.status_path);
      known_.push_back({pool.address, pool.everywhere, backend});
    }
  }
  for (Group* group : groups.all()) link_group(*group, shared);
}

std::vector<PoolStatus> pool_status(const conf::Configuration& configuration) {
  std::vector<PoolStatus> pools;
  const auto* backends = configuration.object<Backends>();
  if (backends == nullptr) return pools;
  for (const auto& backend : backends->all()) {
    const BackendCounts* counts = backend->counts_;
    const std::uint32_t slots = counts == nullptr ? 0 : counts->slots.load();
    if (!backend->named_ && slots == 0) continue;
    PoolStatus& pool = pools.emplace_back(PoolStatus{backend->name_, backend->capacity_});
    for (std::uint32_t i = 0; i < slots; ++i) {
      pool.connections += counts->slot[i].used;
      pool.idle += counts->slot[i].idle;
      pool.waiting += counts->slot[i].waiting;
    }
    pool.status_path = backend->status_path_;
  }
  return pools;
}

}  // namespace corehttpd::upstream
