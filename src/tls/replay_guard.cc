#include "corehttpd/tls/replay_guard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::tls {

ReplayGuard::ReplayGuard(std::span<std::byte> memory) : memory_(memory) {
  CORE_CHECK(memory.size() >= data_bytes());
}

// A slot holds since when it is taken. One place for each random, and one exchange decides: with
// several places two processes could each find one of them free.
bool ReplayGuard::first(std::span<const unsigned char> random, std::int64_t now_s) {
  if (random.size() < sizeof(std::uint64_t)) return false;
  std::uint64_t value = 0;
  std::memcpy(&value, random.data() + random.size() - sizeof(value), sizeof(value));
  auto* slots = reinterpret_cast<std::uint64_t*>(memory_.data());
  std::atomic_ref<std::uint64_t> slot(slots[value % kSlots]);
  const auto now = static_cast<std::uint64_t>(now_s) + 1;
  std::uint64_t since = slot.load();
  // After a start of the machine the clock begins anew, but so does the memory.
  if (since != 0 && now < since + static_cast<std::uint64_t>(kSeconds)) return false;
  return slot.compare_exchange_strong(since, now);
}

}  // namespace corehttpd::tls
