// Keys of session tickets (RFC 5077, RFC 8446 §4.6.1), in memory that all workers of all
// generations share, handed over to a new binary. Whoever first finds the newest key old makes the
// next: there is no timer. docs/formats.md describes the memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "corehttpd/base/clock.h"

namespace corehttpd::tls {

struct TicketKey {
  std::array<unsigned char, 16> name{};
  std::array<unsigned char, 32> aes{};
  std::array<unsigned char, 32> mac{};
};

class TicketKeys {
 public:
  // Of the segment, the ReplayGuard's memory in it.
  static constexpr std::uint32_t kLayoutVersion = 2;
  static constexpr std::size_t kSlots = 4;
  // How long a key encrypts. It decrypts for two such times more, so that a ticket is good for at
  // least twice this after it was made, longer than any ssl_session_timeout may be (set_period).
  static constexpr std::int64_t kPeriodSeconds = 3600;

  static std::size_t data_bytes();
  // memory: data_bytes() of a segment, zeroed when fresh; must outlive the object.
  explicit TicketKeys(std::span<std::byte> memory);

  // The key that encrypts now. now_s: the wall clock; one that jumps back changes nothing, one that
  // jumps ahead costs at most the tickets made before.
  TicketKey current(std::int64_t now_s);
  // The key of that name that may still decrypt; renew: it is not the newest.
  struct Found {
    TicketKey key;
    bool renew;
  };
  std::optional<Found> find(std::span<const unsigned char> name);
  // For tests: as if the newest key had become old.
  void rotate(std::int64_t now_s);
  // The longest ssl_session_timeout: makes the period longer where it must be.
  void set_period(std::int64_t longest_timeout_s);

 private:
  struct Shared;
  Shared& shared_;
  std::int64_t period_s_ = kPeriodSeconds;
};

}  // namespace corehttpd::tls
