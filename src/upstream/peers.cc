#include "corehttpd/upstream/peers.h"

#include <algorithm>

#include "corehttpd/base/check.h"
#include "corehttpd/base/text.h"

namespace corehttpd::upstream {

const Peer* PeerSelector::next(const Group& group, Milliseconds now_ms) {
  release();
  group_ = &group;
  const Peer* peer = choose(group, false, now_ms);
  if (peer == nullptr) peer = choose(group, true, now_ms);
  if (peer == nullptr) return nullptr;
  held_ = true;
  ++group.states[index_].connections;
  mark_tried(index_);
  return peer;
}

// Smooth weighted round robin: every candidate gains its weight, the richest is chosen and pays the
// sum of all, so that {5,1,1} yields a a b a c a a and not five in a row.
const Peer* PeerSelector::choose(const Group& group, bool backup, Milliseconds now_ms) {
  std::int64_t total = 0;
  std::size_t best = SIZE_MAX;
  for (std::size_t i = 0; i < group.peers.size(); ++i) {
    const Peer& peer = group.peers[i];
    PeerState& state = group.states[i];
    if (peer.backup != backup || peer.down || peer.unresolved || is_tried(i)) continue;
    // With a single server there is nothing to fall back on: marking it would only add errors.
    if (group.peers.size() > 1 && peer.max_fails > 0 && state.fails >= peer.max_fails &&
        now_ms - state.checked_ms <= peer.fail_timeout) {
      continue;
    }
    if (peer.max_conns > 0 && state.connections >= peer.max_conns) continue;
    state.current_weight += state.effective_weight;
    total += state.effective_weight;
    // A server that failed gets its share back bit by bit.
    if (state.effective_weight < peer.weight) ++state.effective_weight;
    if (best == SIZE_MAX || state.current_weight > group.states[best].current_weight) best = i;
  }
  if (best == SIZE_MAX) return nullptr;
  PeerState& state = group.states[best];
  state.current_weight -= total;
  if (now_ms - state.checked_ms > group.peers[best].fail_timeout) state.checked_ms = now_ms;
  index_ = best;
  return &group.peers[best];
}

void PeerSelector::mark_tried(std::size_t i) {
  tried_[i / 64] |= std::uint64_t{1} << (i % 64);
  ++tried_count_;
}

void PeerSelector::failed(Milliseconds now_ms) {
  if (!held_) return;
  const Peer& peer = group_->peers[index_];
  PeerState& state = group_->states[index_];
  ++state.fails;
  state.failed_ms = state.checked_ms = now_ms;
  if (peer.max_fails > 0) {
    state.effective_weight -= peer.weight / peer.max_fails;
    state.effective_weight = std::max<std::int64_t>(state.effective_weight, 0);
  }
}

void PeerSelector::succeeded(Milliseconds) {
  if (!held_) return;
  PeerState& state = group_->states[index_];
  // Only an answer given after its time-out clears a server; others may have been on their way when
  // it failed.
  if (state.failed_ms < state.checked_ms) state.fails = 0;
}

void PeerSelector::release() {
  if (!held_) return;
  held_ = false;
  PeerState& state = group_->states[index_];
  CORE_DCHECK(state.connections > 0);
  --state.connections;
}

const Group* Groups::find(std::string_view name) const {
  for (const Group* group : groups_) {
    if (text::equals_ignore_case(group->name, name)) return group;
  }
  return nullptr;
}

const Group* Groups::implicit(conf::Compiler& compiler, const conf::Position& at,
                              std::string_view text) {
  for (const Group* group : implicit_) {
    if (group->name == text) return group;
  }
  Arena& arena = compiler.arena();
  const std::span<Peer> peers{arena.make<Peer>(), 1};
  if (!parse_peer(compiler, at, text, 0, peers[0])) return nullptr;
  Group* group = arena.make<Group>();
  *group = {arena.copy(text), peers, arena.make_array<PeerState>(1), true};
  group->states[0].effective_weight = 1;
  implicit_.push_back(group);
  return group;
}

}  // namespace corehttpd::upstream
