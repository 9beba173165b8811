#include "corehttpd/upstream/peers.h"

#include <algorithm>

#include "corehttpd/base/check.h"
#include "corehttpd/base/text.h"
#include "upstream/backends.h"

namespace corehttpd::upstream {

void PeerSelector::begin(const Group& group, http::Exchange* exchange, std::uint32_t tries_max) {
  group_ = &group;
  exchange_ = exchange;
  tries_left_ = total_weight_ = 0;
  for (const Peer& peer : group.peers) {
    if (!peer.down && !peer.unresolved) ++tries_left_;
    if (!peer.backup) total_weight_ += peer.weight;
  }
  if (tries_max != 0) tries_left_ = std::min(tries_left_, tries_max);
  if (group.shared != nullptr) group.shared->slot();
}

const Peer* PeerSelector::next(Milliseconds now_ms) {
  release();
  const shm::Guard guard(group_->lock);
  std::size_t i = choose(now_ms);
  if (i == SIZE_MAX) i = choose_in_turn(true, group_->balance == Balance::kLeastConn, now_ms);
  if (i == SIZE_MAX) return nullptr;
  take(i, now_ms);
  return &group_->peers[i];
}

void PeerSelector::take(std::size_t i, Milliseconds now_ms) {
  PeerState& state = group_->states[i];
  if (now_ms - state.checked_ms > group_->peers[i].fail_timeout) state.checked_ms = now_ms;
  ++state.connections;
  if (group_->held != nullptr) ++group_->held[i];
  index_ = i;
  held_ = true;
  set_tried(i, true);
}

bool PeerSelector::usable(std::size_t i, Milliseconds now_ms) const {
  const Peer& peer = group_->peers[i];
  const PeerState& state = group_->states[i];
  if (peer.down || peer.unresolved) return false;
  if (!group_->single() && peer.max_fails > 0 && state.fails >= peer.max_fails &&
      now_ms - state.checked_ms <= peer.fail_timeout) {
    return false;
  }
  // Where requests may wait for a place, a full server can be chosen.
  return peer.max_conns == 0 || peer.backend != nullptr || state.connections < peer.max_conns;
}

void PeerSelector::set_tried(std::size_t i, bool on) {
  const std::uint64_t bit = std::uint64_t{1} << (i % 64);
  if (on) {
    tried_[i / 64] |= bit;
  } else {
    tried_[i / 64] &= ~bit;
  }
}

bool PeerSelector::failed(Milliseconds now_ms) {
  if (!held_ || group_->single()) return false;
  const shm::Guard guard(group_->lock);
  const Peer& peer = group_->peers[index_];
  PeerState& state = group_->states[index_];
  ++state.fails;
  state.failed_ms = state.checked_ms = now_ms;
  if (peer.max_fails == 0) return false;
  state.effective_weight -= peer.weight / peer.max_fails;
  state.effective_weight = std::max<std::int64_t>(state.effective_weight, 0);
  return state.fails >= peer.max_fails;
}

void PeerSelector::succeeded() {
  if (!held_) return;
  const shm::Guard guard(group_->lock);
  PeerState& state = group_->states[index_];
  // Only an answer given after its time-out clears a server; others may have been on their way when
  // it failed.
  if (state.failed_ms < state.checked_ms) state.fails = 0;
}

void PeerSelector::release() {
  if (!std::exchange(held_, false)) return;
  if (tries_left_ > 0) --tries_left_;
  const shm::Guard guard(group_->lock);
  PeerState& state = group_->states[index_];
  if (group_->held != nullptr) --group_->held[index_];
  CORE_DCHECK(state.connections > 0);
  --state.connections;
}

void PeerSelector::forgive() {
  if (!held_) return;
  set_tried(index_, false);
  ++tries_left_;
}

const Group* Groups::find(std::string_view name) const {
  for (const Group* group : groups_) {
    if (text::equals_ignore_case(group->name, name)) return group;
  }
  return nullptr;
}

const Group* Groups::find_implicit(std::string_view text) const {
  for (const Group* group : implicit_) {
    if (group->name == text) return group;
  }
  return nullptr;
}

const Group* Groups::implicit(conf::Compiler& compiler, const conf::Position& at,
                              std::string_view text) {
  if (const Group* found = find_implicit(text)) return found;
  std::vector<Peer> peers;
  if (!parse_peers(compiler, at, text, 0, {.automatic = true}, peers)) return nullptr;
  Arena& arena = compiler.arena();
  Group* group = arena.make<Group>();
  group->name = arena.copy(text);
  group->implicit = true;
  set_peers(arena, *group, peers);
  implicit_.push_back(group);
  all_.push_back(group);
  return group;
}

void set_peers(Arena& arena, Group& group, std::span<const Peer> from) {
  auto* peers = static_cast<Peer*>(arena.allocate(sizeof(Peer) * from.size(), alignof(Peer)));
  group.states = arena.make_array<PeerState>(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    new (peers + i) Peer(from[i]);
    group.states[i].effective_weight = from[i].weight;
  }
  group.peers = {peers, from.size()};
}

const Group* make_group(Arena& arena, std::string_view text, std::span<const io::Address> addresses,
                        std::uint16_t port, const Backends& backends) {
  // Whose turn it is to be first: each request has a group of its own.
  static std::size_t turn = 0;
  auto* group = arena.make<Group>();
  group->name = text;
  group->implicit = true;
  std::vector<Peer> peers;
  const std::size_t count = std::min(addresses.size(), Group::kPeersMax);
  const std::size_t first = turn++;
  for (std::size_t i = 0; i < count; ++i) {
    Peer& peer = peers.emplace_back(Peer{.address = addresses[(first + i) % count]});
    if (port != 0) peer.address.set_port(port);
    peer.name = arena.copy(peer.address.to_string());
    peer.server = text;
    peer.backend = backends.at_link(peer.address);
  }
  set_peers(arena, *group, peers);
  return group;
}

}  // namespace corehttpd::upstream
