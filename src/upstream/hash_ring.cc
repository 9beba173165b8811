#include "upstream/hash_ring.h"

#include <algorithm>
#include <vector>

namespace corehttpd::upstream {
namespace {

constexpr std::uint32_t kPointsPerWeight = 160;

// "HOST \\0 PORT": the start of each point's hash.
Crc32 begin_hash(std::string_view server) {
  std::string_view host = server;
  std::string_view port;
  if (server.starts_with("unix:")) {
    host.remove_prefix(5);
  } else {
    const std::size_t colon = server.find_last_not_of("0123456789");
    if (colon != std::string_view::npos && server[colon] == ':') {
      host = server.substr(0, colon);
      port = server.substr(colon + 1);
    }
  }
  Crc32 crc;
  crc.add(host);
  crc.add(std::string_view("", 1));
  crc.add(port);
  return crc;
}

}  // namespace

std::span<const HashPoint> make_ring(Arena& arena, std::span<const Peer> peers) {
  std::vector<HashPoint> points;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    // One name's addresses share their points, however many there are of them.
    const auto same = [&](const Peer& other) { return other.server == peers[i].server; };
    if (peers[i].backup || std::ranges::any_of(peers.first(i), same)) continue;
    const Crc32 base = begin_hash(peers[i].server);
    std::uint32_t previous = 0;
    for (std::uint32_t j = 0; j < peers[i].weight * kPointsPerWeight; ++j) {
      Crc32 crc = base;
      const char bytes[] = {static_cast<char>(previous), static_cast<char>(previous >> 8),
                            static_cast<char>(previous >> 16), static_cast<char>(previous >> 24)};
      crc.add({bytes, sizeof(bytes)});
      previous = crc.value();
      points.push_back({previous, static_cast<std::uint32_t>(i)});
    }
  }
  std::ranges::stable_sort(points, {}, &HashPoint::hash);
  const auto doubled = std::ranges::unique(points, {}, &HashPoint::hash);
  points.erase(doubled.begin(), doubled.end());
  auto* copy = static_cast<HashPoint*>(arena.allocate(
      sizeof(HashPoint) * std::max<std::size_t>(points.size(), 1), alignof(HashPoint)));
  std::ranges::copy(points, copy);
  return {copy, points.size()};
}

}  // namespace corehttpd::upstream
