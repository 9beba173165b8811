#include "corehttpd/tls/tickets.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace corehttpd::tls {
namespace {

struct Memory {
  alignas(8) std::vector<std::byte> bytes = std::vector<std::byte>(TicketKeys::data_bytes());
};

TEST(TicketKeys, AreTheSameForAllWhoShareTheMemory) {
  Memory memory;
  TicketKeys one(memory.bytes);
  TicketKeys other(memory.bytes);
  const TicketKey key = one.current(1000);
  EXPECT_EQ(other.current(1000).name, key.name);
  const auto found = other.find(key.name);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key.aes, key.aes);
  EXPECT_EQ(found->key.mac, key.mac);
  EXPECT_FALSE(found->renew);
}

TEST(TicketKeys, AreKnownForTwoPeriodsAfterTheirOwn) {
  Memory memory;
  TicketKeys keys(memory.bytes);
  const std::int64_t period = TicketKeys::kPeriodSeconds;
  const TicketKey first = keys.current(0);
  EXPECT_EQ(keys.current(period - 1).name, first.name);
  const TicketKey second = keys.current(period);
  EXPECT_NE(second.name, first.name);
  EXPECT_NE(second.aes, first.aes);
  ASSERT_TRUE(keys.find(first.name));
  EXPECT_TRUE(keys.find(first.name)->renew);
  keys.current(2 * period);
  EXPECT_TRUE(keys.find(first.name));
  keys.current(3 * period);
  EXPECT_FALSE(keys.find(first.name));
  EXPECT_TRUE(keys.find(second.name));
}

TEST(TicketKeys, LiveAsLongAsTheLongestSessions) {
  Memory memory;
  TicketKeys keys(memory.bytes);
  keys.set_period(86400);
  const TicketKey first = keys.current(0);
  EXPECT_EQ(keys.current(43199).name, first.name);
  keys.current(43200);
  keys.current(86400);
  EXPECT_TRUE(keys.find(first.name));
}

TEST(TicketKeys, DoNotChangeWhenTheClockGoesBack) {
  Memory memory;
  TicketKeys keys(memory.bytes);
  const TicketKey first = keys.current(1'000'000);
  EXPECT_EQ(keys.current(5).name, first.name);
  EXPECT_TRUE(keys.find(first.name));
}

TEST(TicketKeys, AreMadeAlsoWhenAMakerHasDied) {
  Memory memory;
  TicketKeys keys(memory.bytes);
  const TicketKey first = keys.current(1000);
  const std::int64_t since = 5000;
  std::memcpy(memory.bytes.data() + 8, &since, sizeof(since));
  EXPECT_EQ(keys.current(5005).name, first.name);  // Somebody is at it.
  EXPECT_NE(keys.current(5011).name, first.name);
}

TEST(TicketKeys, OfUnknownNameAreNotFound) {
  Memory memory;
  TicketKeys keys(memory.bytes);
  const std::array<unsigned char, 16> none{};
  EXPECT_FALSE(keys.find(none));
  keys.current(1);
  EXPECT_FALSE(keys.find(none));
}

}  // namespace
}  // namespace corehttpd::tls
