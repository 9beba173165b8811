#include "corehttpd/tls/session_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace corehttpd::tls {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes id_of(unsigned number) {
  Bytes id(SessionCache::kIdMax, 0);
  std::memcpy(id.data(), &number, sizeof(number));
  return id;
}

TEST(SessionCache, GivesBackWhatWasStored) {
  std::vector<std::byte> memory(64 * SessionCache::kSlotBytes);
  SessionCache cache(memory);
  cache.store(id_of(1), Bytes(100, 'a'), 1000, 1300);
  cache.store(Bytes{7}, Bytes(10, 'b'), 1000, 1300);
  SessionCache other(memory);
  std::string got;
  ASSERT_TRUE(other.find(id_of(1), 1299, got));
  EXPECT_EQ(got, std::string(100, 'a'));
  ASSERT_TRUE(other.find(Bytes{7}, 1000, got));
  EXPECT_EQ(got, std::string(10, 'b'));
  EXPECT_FALSE(other.find(id_of(1), 1300, got));
  EXPECT_FALSE(other.find(id_of(2), 1000, got));
}

TEST(SessionCache, DropsWhatEndsFirst) {
  std::vector<std::byte> memory(4 * SessionCache::kSlotBytes);  // One set.
  SessionCache cache(memory);
  for (unsigned i = 1; i <= 5; ++i) cache.store(id_of(i), Bytes(1, 'x'), 1000, 1000 + 100 * i);
  std::string got;
  EXPECT_FALSE(cache.find(id_of(1), 1000, got));
  for (unsigned i = 2; i <= 5; ++i) EXPECT_TRUE(cache.find(id_of(i), 1000, got)) << i;
}

TEST(SessionCache, LeavesOutWhatIsTooLarge) {
  std::vector<std::byte> memory(4 * SessionCache::kSlotBytes);
  SessionCache cache(memory);
  std::string got;
  cache.store(id_of(1), Bytes(SessionCache::kSessionMax + 1), 0, 10);
  EXPECT_FALSE(cache.find(id_of(1), 0, got));
  cache.store(id_of(1), Bytes(SessionCache::kSessionMax), 0, 10);
  EXPECT_TRUE(cache.find(id_of(1), 0, got));
  EXPECT_FALSE(cache.find({}, 0, got));
}

TEST(SessionCache, RecoversFromAWriterThatDied) {
  std::vector<std::byte> memory(4 * SessionCache::kSlotBytes);
  const std::uint64_t busy = std::uint64_t{1000} << 32 | 1;
  for (int slot = 0; slot < 4; ++slot)
    std::memcpy(memory.data() + slot * SessionCache::kSlotBytes, &busy, sizeof(busy));
  SessionCache cache(memory);
  std::string got;
  cache.store(id_of(1), Bytes(3, 'x'), 1005, 2000);
  EXPECT_FALSE(cache.find(id_of(1), 1005, got));
  cache.store(id_of(1), Bytes(3, 'x'), 1011, 2000);
  EXPECT_TRUE(cache.find(id_of(1), 1011, got));
}

}  // namespace
}  // namespace corehttpd::tls
