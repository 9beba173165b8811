#include "corehttpd/tls/session_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::tls {

// state: bits 0-31 count the changes, odd while one is being made; bits 32-63 then say since when.
// Who reads looks at it before and after.
struct SessionCache::Slot {
  std::atomic<std::uint64_t> state;
  std::int64_t expires_s;
  std::uint32_t session_bytes;
  std::uint32_t id_bytes;
  unsigned char id[kIdMax];
  unsigned char reserved[8];
  unsigned char session[kSessionMax];
};

namespace {

constexpr std::size_t kWays = 4;
// A writer that died leaves its slot marked for this long.
constexpr std::uint64_t kWritingMax = 10;

std::uint64_t hash(std::span<const unsigned char> id) {
  // Identifiers are random; whose they are is none of a client's choice.
  std::uint64_t value = 0xcbf29ce484222325;
  for (unsigned char byte : id) value = (value ^ byte) * 0x100000001b3;
  return value ^ value >> 32;
}

bool is_busy(std::uint64_t state) { return (state & 1) != 0; }

}  // namespace

SessionCache::SessionCache(std::span<std::byte> memory)
    : slots_(reinterpret_cast<Slot*>(memory.data())), sets_(memory.size() / (kSlotBytes * kWays)) {
  static_assert(sizeof(Slot) == kSlotBytes);
  CORE_CHECK(sets_ > 0);
}

std::span<SessionCache::Slot> SessionCache::set_of(std::span<const unsigned char> id) const {
  return {slots_ + hash(id) % sets_ * kWays, kWays};
}

void SessionCache::store(std::span<const unsigned char> id, std::span<const unsigned char> session,
                         std::int64_t now_s, std::int64_t expires_s) {
  if (id.empty() || id.size() > kIdMax || session.size() > kSessionMax) return;
  const auto set = set_of(id);
  // The free one, else that which ends first.
  Slot& slot = *std::min_element(set.begin(), set.end(), [](const Slot& a, const Slot& b) {
    return a.expires_s < b.expires_s;
  });
  std::uint64_t state = slot.state.load();
  const auto now = static_cast<std::uint32_t>(now_s);
  if (is_busy(state) && now - (state >> 32) < kWritingMax) return;
  const auto count = static_cast<std::uint32_t>(state) | 1;
  const std::uint64_t busy = static_cast<std::uint64_t>(now) << 32 |
                             (is_busy(state) ? static_cast<std::uint32_t>(count + 2) : count);
  if (!slot.state.compare_exchange_strong(state, busy)) return;
  slot.expires_s = expires_s;
  slot.id_bytes = static_cast<std::uint32_t>(id.size());
  slot.session_bytes = static_cast<std::uint32_t>(session.size());
  std::copy(id.begin(), id.end(), slot.id);
  std::copy(session.begin(), session.end(), slot.session);
  slot.state.store(static_cast<std::uint32_t>(busy) + 1);
}

bool SessionCache::find(std::span<const unsigned char> id, std::int64_t now_s,
                        std::string& into) const {
  if (id.empty() || id.size() > kIdMax) return false;
  for (const Slot& slot : set_of(id)) {
    const std::uint64_t state = slot.state.load();
    if (is_busy(state) || slot.id_bytes != id.size() || slot.expires_s <= now_s ||
        slot.session_bytes > kSessionMax || !std::equal(id.begin(), id.end(), slot.id)) {
      continue;
    }
    into.assign(reinterpret_cast<const char*>(slot.session), slot.session_bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.state.load() == state) return true;
  }
  into.clear();
  return false;
}

}  // namespace corehttpd::tls
