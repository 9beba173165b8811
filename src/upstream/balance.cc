// How a group chooses: each method as nginx documents it, so that a client meets the same server
// behind either.
#include <algorithm>
#include <array>
#include <charconv>
#include <random>

#include "corehttpd/http/exchange.h"
#include "corehttpd/upstream/peers.h"
#include "upstream/hash_ring.h"

namespace corehttpd::upstream {
namespace {

// After so many useless answers of a hash the servers are asked in turn.
constexpr std::uint32_t kRehashesMax = 20;

std::uint32_t random_below(std::uint32_t limit) {
  static std::minstd_rand generator{std::random_device{}()};
  return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(generator);
}

// Has a fewer connections for its weight than b?
bool less_loaded(const Group& group, std::size_t a, std::size_t b) {
  return std::uint64_t{group.states[a].connections} * group.peers[b].weight <
         std::uint64_t{group.states[b].connections} * group.peers[a].weight;
}

}  // namespace

std::size_t PeerSelector::choose(Milliseconds now_ms) {
  // A single server, or a hash that has led nowhere too often.
  if (group_->single() || rehashed_ > kRehashesMax) return choose_in_turn(false, false, now_ms);
  switch (group_->balance) {
    case Balance::kRoundRobin:
      return choose_in_turn(false, false, now_ms);
    case Balance::kLeastConn:
      return choose_in_turn(false, true, now_ms);
    case Balance::kIpHash:
      return choose_by_ip(now_ms);
    case Balance::kHash:
      return choose_by_hash(now_ms);
    case Balance::kConsistentHash:
      return choose_on_ring(now_ms);
    case Balance::kRandom:
      return choose_at_random(false, now_ms);
    case Balance::kRandomTwo:
      return choose_at_random(true, now_ms);
  }
  return SIZE_MAX;
}

// Smooth weighted round robin: every candidate gains its weight, the richest is chosen and pays the
// sum of all, so that {5,1,1} yields a a b a c a a and not five in a row.
template <class Candidate>
std::size_t PeerSelector::pick_in_turn(const Candidate& candidate) {
  std::int64_t total = 0;
  std::size_t best = SIZE_MAX;
  for (std::size_t i = 0; i < group_->peers.size(); ++i) {
    if (!candidate(i)) continue;
    PeerState& state = group_->states[i];
    state.current_weight += state.effective_weight;
    total += state.effective_weight;
    // A server that failed gets its share back bit by bit.
    if (state.effective_weight < group_->peers[i].weight) ++state.effective_weight;
    if (best == SIZE_MAX || state.current_weight > group_->states[best].current_weight) best = i;
  }
  if (best != SIZE_MAX) group_->states[best].current_weight -= total;
  return best;
}

// least: only those with the fewest connections are candidates.
std::size_t PeerSelector::choose_in_turn(bool backup, bool least, Milliseconds now_ms) {
  std::size_t least_loaded = SIZE_MAX;
  const auto candidate = [&](std::size_t i) {
    if (group_->peers[i].backup != backup || is_tried(i) || !usable(i, now_ms)) return false;
    return least_loaded == SIZE_MAX || !less_loaded(*group_, least_loaded, i);
  };
  if (least) {
    for (std::size_t i = 0; i < group_->peers.size(); ++i) {
      if (candidate(i) && (least_loaded == SIZE_MAX || less_loaded(*group_, i, least_loaded))) {
        least_loaded = i;
      }
    }
    if (least_loaded == SIZE_MAX) return SIZE_MAX;
  }
  return pick_in_turn(candidate);
}

// The server on whose part of the sum of all weights the number falls.
std::size_t PeerSelector::by_weight(std::uint32_t number) const {
  std::uint32_t left = number % total_weight_;
  for (std::size_t i = 0;; ++i) {
    if (group_->peers[i].backup) continue;
    if (left < group_->peers[i].weight) return i;
    left -= group_->peers[i].weight;
  }
}

std::size_t PeerSelector::choose_by_ip(Milliseconds now_ms) {
  const IpAddress& client = exchange_->client();
  std::span<const std::uint8_t> network = client.binary();
  if (client.family == IpAddress::Family::kV4) network = network.first(3);
  // Clients of a unix socket are all one.
  constexpr std::uint8_t kNone[] = {0, 0, 0};
  if (network.empty()) network = kNone;
  if (!keyed_) hash_ = 89;
  keyed_ = true;
  while (rehashed_++ <= kRehashesMax) {
    for (std::uint8_t byte : network) hash_ = (hash_ * 113 + byte) % 6271;
    const std::size_t i = by_weight(hash_);
    if (!is_tried(i) && usable(i, now_ms)) return i;
  }
  return choose_in_turn(false, false, now_ms);
}

std::size_t PeerSelector::choose_by_hash(Milliseconds now_ms) {
  if (!keyed_) key_ = group_->key.evaluate(*exchange_);
  keyed_ = true;
  if (key_.empty()) return choose_in_turn(false, false, now_ms);
  while (rehashed_ <= kRehashesMax) {
    // As Cache::Memcached has it: ((crc32([REHASH] KEY) >> 16) & 0x7fff) + the hash before.
    Crc32 crc;
    if (rehashed_ > 0) {
      std::array<char, 12> digits;
      const auto end = std::to_chars(digits.begin(), digits.end(), rehashed_).ptr;
      crc.add({digits.begin(), static_cast<std::size_t>(end - digits.begin())});
    }
    crc.add(key_);
    hash_ += crc.value() >> 16 & 0x7fff;
    ++rehashed_;
    const std::size_t i = by_weight(hash_);
    if (!is_tried(i) && usable(i, now_ms)) return i;
  }
  return choose_in_turn(false, false, now_ms);
}

std::size_t PeerSelector::choose_on_ring(Milliseconds now_ms) {
  const std::span<const HashPoint> points = group_->points;
  if (!keyed_) {
    key_ = group_->key.evaluate(*exchange_);
    Crc32 crc;
    crc.add(key_);
    const auto found = std::ranges::lower_bound(points, crc.value(), {}, &HashPoint::hash);
    hash_ = static_cast<std::uint32_t>(found - points.begin());
  }
  keyed_ = true;
  if (key_.empty() || points.empty()) return choose_in_turn(false, false, now_ms);
  for (; rehashed_ <= kRehashesMax; ++rehashed_, ++hash_) {
    // Of the addresses of one name the next in turn.
    const std::string_view server = group_->peers[points[hash_ % points.size()].server].server;
    const std::size_t best = pick_in_turn([&](std::size_t i) {
      return !group_->peers[i].backup && group_->peers[i].server == server && !is_tried(i) &&
             usable(i, now_ms);
    });
    if (best != SIZE_MAX) return best;
  }
  return choose_in_turn(false, false, now_ms);
}

std::size_t PeerSelector::choose_at_random(bool two, Milliseconds now_ms) {
  std::size_t first = SIZE_MAX;
  while (rehashed_++ <= kRehashesMax) {
    const std::size_t i = by_weight(random_below(total_weight_));
    if (i == first || is_tried(i) || !usable(i, now_ms)) continue;
    if (!two) return i;
    if (first == SIZE_MAX) {
      first = i;
      continue;
    }
    return less_loaded(*group_, i, first) ? i : first;
  }
  return first != SIZE_MAX ? first : choose_in_turn(false, false, now_ms);
}

}  // namespace corehttpd::upstream
