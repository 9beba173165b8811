// Early data that was seen before (RFC 8446 §8.2): the hellos of the last seconds, by their
// randoms, in memory that all workers of all generations share. The library takes early data only
// from hellos whose age fits their ticket to about ten seconds, so that is how long one must be
// known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace corehttpd::tls {

class ReplayGuard {
 public:
  // A hello whose place is another's is refused, so there are many: some hundred a second find
  // theirs free.
  static constexpr std::size_t kSlots = std::size_t{1} << 16;
  static constexpr std::int64_t kSeconds = 30;

  static constexpr std::size_t data_bytes() { return kSlots * sizeof(std::uint64_t); }
  // memory: data_bytes() of a segment, zeroed when fresh, aligned to 8; must outlive the object.
  explicit ReplayGuard(std::span<std::byte> memory);

  // Whether its early data may be taken: true at most once for a random within kSeconds, whichever
  // processes ask. Else the client sends the same again after the handshake. random: 32 bytes,
  // which a replay cannot change; now_s: of a clock that does not jump.
  bool first(std::span<const unsigned char> random, std::int64_t now_s);

 private:
  std::span<std::byte> memory_;
};

}  // namespace corehttpd::tls
