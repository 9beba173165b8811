// upstream {} blocks: groups of servers, their weighted round robin and the marking of failures.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::upstream {

// A server as configured.
struct Peer {
  io::Address address;
  std::string_view name;        // As logs and $upstream_addr have it: "127.0.0.1:9000", "unix:/x".
  std::uint32_t weight = 1;     // From 1.
  std::uint32_t max_fails = 1;  // 0: failures are not counted.
  std::uint32_t max_conns = 0;  // Of each worker; 0: no limit.
  Milliseconds fail_timeout = 10'000;
  bool backup = false;
  bool down = false;
  bool unresolved = false;  // Its name could not be resolved at start: never asked.
  conf::Position at;        // Where it was written.
};

// What a worker knows of a server. Every worker has its own: the pages are private once it writes.
struct PeerState {
  std::int64_t current_weight = 0;
  std::int64_t effective_weight = 0;
  std::uint32_t fails = 0;
  std::uint32_t connections = 0;
  Milliseconds failed_ms = 0;   // When it last failed.
  Milliseconds checked_ms = 0;  // When it was last given a chance after failing.
};

struct Group {
  static constexpr std::size_t kPeersMax = 512;
  std::string_view name;  // Of the block; of an implicit group what *_pass says.
  std::span<const Peer> peers;
  std::span<PeerState> states;  // Parallel to peers; mutable, see PeerState.
  bool implicit = false;        // No block: one server given by *_pass itself.
};

// Chooses servers for one request, each at most once.
class PeerSelector {
 public:
  // The next server to try; nullptr when there is none left. It counts as connected until released.
  const Peer* next(const Group& group, Milliseconds now_ms);
  // How the attempt at the server given by next() went.
  void succeeded(Milliseconds now_ms);
  void failed(Milliseconds now_ms);
  // The attempt is over, however.
  void release();
  std::uint32_t tried() const { return tried_count_; }
  // Whether another server would be there to try.
  bool has_more(const Group& group) const { return tried_count_ < group.peers.size(); }

 private:
  const Peer* choose(const Group& group, bool backup, Milliseconds now_ms);
  bool is_tried(std::size_t i) const { return (tried_[i / 64] >> (i % 64) & 1) != 0; }
  void mark_tried(std::size_t i);

  const Group* group_ = nullptr;
  std::size_t index_ = 0;
  bool held_ = false;
  std::uint32_t tried_count_ = 0;
  std::uint64_t tried_[Group::kPeersMax / 64] = {};
};

// All groups of a configuration, an object of it.
class Groups {
 public:
  const Group* find(std::string_view name) const;
  void add(Group* group) { groups_.push_back(group); }
  // The group of a server that *_pass names directly, made at the first call. Errors are recorded.
  // text: "unix:/path" or "host:port".
  const Group* implicit(conf::Compiler& compiler, const conf::Position& at, std::string_view text);

 private:
  std::vector<const Group*> groups_;
  std::vector<const Group*> implicit_;
};

// unix:/path (also with nginx's ":" and a URI behind it), address:port or, where a name is allowed,
// host:port. default_port 0: a port is required. A name that cannot be resolved is no error: the
// server is never asked, and report_unresolved() says so of each site that has no other.
bool parse_peer(conf::Compiler& compiler, const conf::Position& at, std::string_view text,
                std::uint16_t default_port, Peer& out);

// Degrades the site of scope, which passes to group in what stands at that place, when no server of
// the group could be resolved.
void report_unresolved(conf::Compiler& compiler, const conf::Scope& scope, const conf::Position& at,
                       const Group& group);

// The rows: upstream, server and what else stands in an upstream block.
const conf::Module& upstream_module();

}  // namespace corehttpd::upstream
