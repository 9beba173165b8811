// upstream {} blocks: groups of servers, how one is chosen, and the marking of failures.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/io/socket.h"
#include "corehttpd/shm/lock.h"

namespace corehttpd::http {
class Exchange;
}

namespace corehttpd::upstream {

class Backend;
class DynamicServers;  // upstream/dynamic_servers.h
class Backends;        // upstream/backends.h
class SharedState;     // upstream/shared_state.h
class IdleConnections;

// A server as configured; of a name that has several addresses one of them.
struct Peer {
  io::Address address;
  std::string_view name;        // As logs and $upstream_addr have it: "127.0.0.1:9000", "unix:/x".
  std::string_view server;      // As it was written: what consistent hashing goes by.
  std::uint32_t weight = 1;     // From 1.
  std::uint32_t max_fails = 1;  // 0: failures are not counted.
  std::uint32_t max_conns = 0;  // 0: no limit. Of all workers when the group has a zone.
  Milliseconds fail_timeout = 10'000;
  bool backup = false;
  bool down = false;
  bool unresolved = false;     // Its name could not be resolved at start: never asked.
  bool automatic = false;      // max_conns=auto: as many as the backend's pool file says.
  Backend* backend = nullptr;  // Where the places of a backend of known capacity are waited for.
  // With "resolve": what is looked up while we run; empty otherwise.
  std::string_view host;
  std::uint16_t port = 0;
  conf::Position at;  // Where it was written.
};

// What is known of a server. In a zone all workers share it; else every worker has its own, as the
// pages of the configuration are private once it writes.
struct PeerState {
  std::int64_t current_weight = 0;
  std::int64_t effective_weight = 0;
  std::uint32_t fails = 0;
  std::uint32_t connections = 0;
  Milliseconds failed_ms = 0;   // When it last failed.
  Milliseconds checked_ms = 0;  // When it was last given a chance after failing.
};

// How a group chooses.
enum class Balance : std::uint8_t {
  kRoundRobin,
  kLeastConn,       // The fewest connections, by weight; among equals in turn.
  kIpHash,          // By the client's network.
  kHash,            // By a key, as Cache::Memcached does.
  kConsistentHash,  // By a key on a ring of points (ketama).
  kRandom,
  kRandomTwo,  // Of two at random the one with fewer connections.
};

// A point of the ring; server: index of the first of the peers that share Peer::server.
struct HashPoint {
  std::uint32_t hash;
  std::uint32_t server;
};

// keepalive of an upstream block.
struct Keepalive {
  std::uint32_t connections = 0;  // Idle ones that each worker keeps; 0: none.
  std::uint32_t requests = 1000;  // That one connection carries.
  Milliseconds time = 3'600'000;  // How long it may be used.
  Milliseconds timeout = 60'000;  // How long it may be idle.
};

struct Group {
  static constexpr std::size_t kPeersMax = 512;
  std::string_view name;  // Of the block; of an implicit group what *_pass says.
  std::span<const Peer> peers;
  std::span<PeerState> states;  // Parallel to peers; mutable, see PeerState.
  bool implicit = false;        // No block: one server given by *_pass itself.
  Balance balance = Balance::kRoundRobin;
  expr::Program key;  // Of the hashes.
  std::span<const HashPoint> points;
  Keepalive keepalive;
  std::uint32_t queue_max = 0;  // "queue": requests that wait for a place; 0: as the location says.
  Milliseconds queue_timeout = 60'000;
  // Of a zone: guards states; held counts what this worker has of each server's connections.
  shm::Lock* lock = nullptr;
  mutable SharedState* shared = nullptr;
  mutable std::uint32_t* held = nullptr;
  // This worker's, made when first needed.
  mutable IdleConnections* idle = nullptr;
  // Of a block with servers that are looked up while we run: makes the groups to be asked in its
  // place. Of such a group: the block.
  DynamicServers* dynamic = nullptr;
  const Group* block = nullptr;
  // With a single server there is nothing to fall back on: it is always asked, whatever failed.
  bool single() const { return peers.size() == 1; }
};

// Gives group its servers and their first states, in the arena.
void set_peers(Arena& arena, Group& group, std::span<const Peer> peers);

// A group for one request, in its arena: the addresses of one server, at least one. port: instead
// of theirs, unless it is 0.
const Group* make_group(Arena& arena, std::string_view text, std::span<const io::Address> addresses,
                        std::uint16_t port, const Backends& backends);

// Chooses servers for one request.
class PeerSelector {
 public:
  // Before the first next(). exchange gives the key of a hash and the client; nullptr only where
  // the group needs none. tries_max: next_upstream_tries; 0: as many as there are servers.
  void begin(const Group& group, http::Exchange* exchange, std::uint32_t tries_max);
  // The next server to try; nullptr when there is none that may be asked. It counts as connected
  // until released.
  const Peer* next(Milliseconds now_ms);
  // How the attempt at the server given by next() went.
  void succeeded();
  // True if with this the server is left alone for its fail_timeout.
  bool failed(Milliseconds now_ms);
  // The attempt is over, however.
  void release();
  // The attempt failed through no fault of the server (a connection that had gone stale): it may be
  // asked again, and the attempt does not count.
  void forgive();
  // How many more may be tried.
  std::uint32_t tries_left() const { return tries_left_; }

 private:
  std::size_t choose(Milliseconds now_ms);
  template <class Candidate>
  std::size_t pick_in_turn(const Candidate& candidate);
  std::size_t choose_in_turn(bool backup, bool least, Milliseconds now_ms);
  std::size_t choose_by_ip(Milliseconds now_ms);
  std::size_t choose_by_hash(Milliseconds now_ms);
  std::size_t choose_on_ring(Milliseconds now_ms);
  std::size_t choose_at_random(bool two, Milliseconds now_ms);
  std::size_t by_weight(std::uint32_t number) const;
  bool usable(std::size_t i, Milliseconds now_ms) const;
  void take(std::size_t i, Milliseconds now_ms);
  bool is_tried(std::size_t i) const { return (tried_[i / 64] >> (i % 64) & 1) != 0; }
  void set_tried(std::size_t i, bool on);

  const Group* group_ = nullptr;
  http::Exchange* exchange_ = nullptr;
  std::size_t index_ = 0;
  bool held_ = false;
  bool keyed_ = false;  // The hash of the key is known.
  std::uint32_t tries_left_ = 0;
  std::uint32_t rehashed_ = 0;  // How often a hash led to a server that could not be asked.
  std::uint32_t hash_ = 0;
  std::string_view key_;
  std::uint32_t total_weight_ = 0;  // Of the servers that are no backups.
  std::uint64_t tried_[Group::kPeersMax / 64] = {};
};

// All groups of a configuration, an object of it.
class Groups {
 public:
  const Group* find(std::string_view name) const;
  // The group that a *_pass without variables made of that text; nullptr: none has.
  const Group* find_implicit(std::string_view text) const;
  void add(Group* group) {
    groups_.push_back(group);
    all_.push_back(group);
  }
  // The group of a server that *_pass names directly, made at the first call. Errors are recorded.
  // text: "unix:/path" or "host:port".
  const Group* implicit(conf::Compiler& compiler, const conf::Position& at, std::string_view text);
  // Blocks and implicit ones, while the configuration is compiled.
  std::span<Group* const> all() const { return all_; }

 private:
  std::vector<Group*> groups_;
  std::vector<Group*> implicit_;
  std::vector<Group*> all_;
};

// A backend of known capacity as it is now, all workers taken together.
struct PoolStatus {
  std::string_view name;  // Lives in the configuration.
  std::uint32_t capacity = 0;
  std::uint32_t connections = 0;
  std::uint32_t idle = 0;  // Of these: without a request.
  std::uint32_t waiting = 0;
  std::string_view status_path;  // Where php-fpm's own page about it is (pm.status_path).
};
// Of those that servers of the configuration belong to, or that were used.
std::vector<PoolStatus> pool_status(const conf::Configuration& configuration);

// unix:/path (also with nginx's ":" and a URI behind it), address:port or, where a name is allowed,
// host:port. default_port 0: a port is required. A name yields a peer for each of its addresses,
// copies of base but for what tells them apart. One that cannot be resolved is no error: the server
// is never asked, and report_unresolved() says so of each site that has no other.
bool parse_peers(conf::Compiler& compiler, const conf::Position& at, std::string_view text,
                 std::uint16_t default_port, const Peer& base, std::vector<Peer>& out);

// Degrades the site of scope, which passes to group in what stands at that place, when no server of
// the group could be resolved.
void report_unresolved(conf::Compiler& compiler, const conf::Scope& scope, const conf::Position& at,
                       const Group& group);

// The rows: upstream, server and what else stands in an upstream block.
const conf::Module& upstream_module();

}  // namespace corehttpd::upstream
