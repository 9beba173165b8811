#include "upstream/dynamic_servers.h"

#include <algorithm>
#include <cstring>

#include "corehttpd/base/log.h"
#include "upstream/backends.h"
#include "upstream/hash_ring.h"

namespace corehttpd::upstream {
namespace {

// When a name is asked for again that could not be resolved: soon while there is nothing else.
constexpr Milliseconds kRetryMs = 1000;
constexpr Milliseconds kRetryWhileKnownMs = 10'000;

bool before(const io::Address& a, const io::Address& b) {
  if (a.length != b.length) return a.length < b.length;
  return std::memcmp(&a.storage, &b.storage, a.length) < 0;
}

}  // namespace

DynamicServers::DynamicServers(const Group& block, const Resolver& resolver, Milliseconds timeout,
                               const Backends& backends)
    : block_(block), resolver_(resolver), timeout_(timeout), backends_(backends) {
  for (const Peer& peer : block.peers) servers_.push_back(std::make_unique<Server>(*this, peer));
}

DynamicServers::~DynamicServers() {
  if (version_ != nullptr && version_->users == 0) delete version_;
}

bool DynamicServers::fresh(io::Loop& loop, Waiter& waiter) {
  loop_ = &loop;
  const Milliseconds now = loop.clock().now_ms();
  if (asking_ == 0) asked_ms_ = now;
  for (const auto& server : servers_) {
    if (server->peer.host.empty() || server->asking || now < server->valid_until_ms) continue;
    if (const NameAnswer* answer = resolver_.look_up(loop, server->peer.host, *server)) {
      take(*server, *answer);
    } else {
      server->asking = true;
      ++asking_;
    }
  }
  if (asking_ == 0 || (known() && now - asked_ms_ >= kPatienceMs)) return true;
  waiters_.push_back(waiter);
  return false;
}

void DynamicServers::Server::on_name(const NameAnswer& answer) {
  asking = false;
  --servers.asking_;
  servers.take(*this, answer);
  if (servers.asking_ > 0) return;
  while (Waiter* waiter = servers.waiters_.pop_front()) waiter->on_servers();
}

// That there is no such name is an answer; that nobody answered leaves things as they were.
void DynamicServers::take(Server& server, const NameAnswer& answer) {
  const Milliseconds now = loop_->clock().now_ms();
  server.valid_until_ms = answer.valid_until_ms;
  if (answer.code != 0) {
    corehttpd::log(nullptr, LogLevel::kError,
                   "{} could not be resolved ({}: {}) for upstream \"{}\"", server.peer.host,
                   answer.code, describe_name_failure(answer.code), block_.name);
    const bool keep = answer.code != NameAnswer::kNotFound && !server.addresses.empty();
    server.valid_until_ms = now + (keep ? kRetryWhileKnownMs : kRetryMs);
    if (keep) return;
  }
  std::vector<io::Address> addresses = answer.addresses;
  for (io::Address& address : addresses) address.set_port(server.peer.port);
  std::ranges::sort(addresses, before);
  if (std::ranges::equal(addresses, server.addresses)) return;
  server.addresses = std::move(addresses);
  changed_ = true;
}

DynamicServers::Version& DynamicServers::acquire() {
  if (version_ == nullptr || changed_) make_version();
  ++version_->users;
  return *version_;
}

void DynamicServers::release(Version& version) {
  if (--version.users == 0 && &version != version_) delete &version;
}

void DynamicServers::make_version() {
  auto* fresh = new Version();
  Group& group = fresh->group;
  group.name = block_.name;
  group.balance = block_.balance;
  group.key = block_.key;
  group.keepalive = block_.keepalive;
  group.block = &block_;
  std::vector<Peer> peers;
  for (const auto& server : servers_) {
    if (server->peer.host.empty()) {
      peers.push_back(server->peer);
      continue;
    }
    for (const io::Address& address : server->addresses) {
      Peer& peer = peers.emplace_back(server->peer);
      peer.address = address;
      peer.name = fresh->arena.copy(address.to_string());
      peer.unresolved = false;
      if (peer.automatic) peer.backend = backends_.at(address);
    }
  }
  if (peers.size() > Group::kPeersMax) peers.resize(Group::kPeersMax);
  set_peers(fresh->arena, group, peers);
  if (group.balance == Balance::kConsistentHash) {
    group.points = make_ring(fresh->arena, group.peers);
  }
  // What is known of a server goes on with it; its connections are counted where they were made.
  for (std::size_t i = 0; version_ != nullptr && i < group.peers.size(); ++i) {
    for (std::size_t k = 0; k < version_->group.peers.size(); ++k) {
      if (!(version_->group.peers[k].address == group.peers[i].address)) continue;
      group.states[i] = version_->group.states[k];
      group.states[i].connections = 0;
      break;
    }
  }
  if (version_ != nullptr && version_->users == 0) delete version_;
  version_ = fresh;
  changed_ = false;
}

}  // namespace corehttpd::upstream
