// The ring of points of "hash … consistent", compatible with Cache::Memcached::Fast's ketama.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/upstream/peers.h"

namespace corehttpd::upstream {

// CRC-32 of IEEE 802.3, as zlib's.
class Crc32 {
 public:
  void add(std::string_view bytes) {
    for (char c : bytes)
      state_ = kTable[(state_ ^ static_cast<unsigned char>(c)) & 0xff] ^ state_ >> 8;
  }
  std::uint32_t value() const { return ~state_; }

 private:
  static constexpr std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) {
        table[i] = (table[i] & 1) != 0 ? 0xedb88320 ^ table[i] >> 1 : table[i] >> 1;
      }
    }
    return table;
  }();
  std::uint32_t state_ = 0xffffffff;
};

// 160 points for each unit of weight of each server that is no backup, sorted.
std::span<const HashPoint> make_ring(Arena& arena, std::span<const Peer> peers);

}  // namespace corehttpd::upstream
