#include "corehttpd/tls/tickets.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::tls {

// newest counts the keys ever made; key n is in slot n % kSlots. Three are good, the fourth slot is
// where the next is written, so that a reader never sees one half made.
struct TicketKeys::Shared {
  struct Slot {
    TicketKey key;
    std::int64_t made_s;
  };
  std::atomic<std::uint64_t> newest;  // 0: none yet.
  std::atomic<std::int64_t> making;   // Since when somebody makes one; 0: nobody.
  Slot slots[kSlots];
};

namespace {

// A maker that died leaves its mark.
constexpr std::int64_t kMakingMax = 10;
constexpr std::uint64_t kGood = TicketKeys::kSlots - 1;

}  // namespace

std::size_t TicketKeys::data_bytes() { return sizeof(Shared); }

TicketKeys::TicketKeys(std::span<std::byte> memory)
    : shared_(*reinterpret_cast<Shared*>(memory.data())) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  CORE_CHECK(memory.size() >= sizeof(Shared));
}

void TicketKeys::rotate(std::int64_t now_s) {
  std::int64_t since = shared_.making.load();
  if (since != 0 && now_s - since < kMakingMax && since <= now_s) return;
  if (!shared_.making.compare_exchange_strong(since, now_s)) return;
  const std::uint64_t next = shared_.newest.load() + 1;
  Shared::Slot& slot = shared_.slots[next % kSlots];
  TicketKey key;
  const bool made = RAND_bytes(key.name.data(), static_cast<int>(key.name.size())) == 1 &&
                    RAND_priv_bytes(key.aes.data(), static_cast<int>(key.aes.size())) == 1 &&
                    RAND_priv_bytes(key.mac.data(), static_cast<int>(key.mac.size())) == 1;
  if (made) {
    slot.key = key;
    slot.made_s = now_s;
    shared_.newest.store(next);
  }
  OPENSSL_cleanse(&key, sizeof(key));
  shared_.making.store(0);
}

TicketKey TicketKeys::current(std::int64_t now_s) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::uint64_t newest = shared_.newest.load();
    const Shared::Slot& slot = shared_.slots[newest % kSlots];
    if (newest == 0 || now_s - slot.made_s >= period_s_) {
      rotate(now_s);
      if (newest == 0) continue;
    }
    const std::uint64_t now = shared_.newest.load();
    const TicketKey key = shared_.slots[now % kSlots].key;
    if (shared_.newest.load() - now < kGood) return key;
  }
  // Nobody has made one for long: a key that nobody else knows, so that its tickets are worthless
  // but harmless.
  TicketKey lone;
  RAND_bytes(lone.name.data(), static_cast<int>(lone.name.size()));
  RAND_priv_bytes(lone.aes.data(), static_cast<int>(lone.aes.size()));
  RAND_priv_bytes(lone.mac.data(), static_cast<int>(lone.mac.size()));
  return lone;
}

std::optional<TicketKeys::Found> TicketKeys::find(std::span<const unsigned char> name) {
  const std::uint64_t newest = shared_.newest.load();
  for (std::uint64_t back = 0; back < std::min(kGood, newest); ++back) {
    const TicketKey key = shared_.slots[(newest - back) % kSlots].key;
    if (!std::equal(name.begin(), name.end(), key.name.begin(), key.name.end())) continue;
    // Its slot may have been reused while it was copied.
    if (shared_.newest.load() - (newest - back) >= kGood) return std::nullopt;
    return Found{key, back != 0};
  }
  return std::nullopt;
}

void TicketKeys::set_period(std::int64_t longest_timeout_s) {
  period_s_ = std::max(kPeriodSeconds, (longest_timeout_s + 1) / 2);
}

}  // namespace corehttpd::tls
