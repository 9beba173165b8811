#include <gtest/gtest.h>

#include "corehttpd/access/access.h"

namespace corehttpd::access {
namespace {

using Decision = AddressRules::Decision;

class Rules : public ::testing::Test {
 protected:
  void deny(std::string_view text) { add(text, true); }
  void allow(std::string_view text) { add(text, false); }
  void add(std::string_view text, bool is_deny) {
    ASSERT_TRUE(rules.add(arena, text, is_deny, low_bits)) << text;
  }
  Decision of(std::string_view client) { return rules.decide(IpAddress::parse(client)); }
  Decision of_unix() {
    IpAddress address;
    address.family = IpAddress::Family::kUnix;
    return rules.decide(address);
  }
  Arena arena;
  AddressRules rules;
  bool low_bits = false;
};

TEST_F(Rules, TheFirstThatMatchesDecides) {
  deny("192.168.1.1");
  allow("192.168.1.0/24");
  allow("10.1.1.0/16");
  EXPECT_TRUE(low_bits);
  allow("2001:db8::/32");
  EXPECT_FALSE(low_bits);
  deny("all");
  EXPECT_EQ(of("192.168.1.1"), Decision::kDeny);
  EXPECT_EQ(of("192.168.1.2"), Decision::kAllow);
  EXPECT_EQ(of("192.168.2.2"), Decision::kDeny);
  EXPECT_EQ(of("10.1.255.9"), Decision::kAllow);
  EXPECT_EQ(of("10.2.0.1"), Decision::kDeny);
  EXPECT_EQ(of("2001:db8:ffff::1"), Decision::kAllow);
  EXPECT_EQ(of("2001:db9::1"), Decision::kDeny);
  EXPECT_EQ(of_unix(), Decision::kDeny);
}

TEST_F(Rules, NothingMatches) {
  deny("192.0.2.0/24");
  EXPECT_EQ(of("198.51.100.1"), Decision::kNone);
  EXPECT_EQ(of("::1"), Decision::kNone);
  EXPECT_EQ(of_unix(), Decision::kNone);
}

TEST_F(Rules, PrefixesOfAnyLength) {
  allow("0.0.0.0/0");
  EXPECT_EQ(of("255.255.255.255"), Decision::kAllow);
  EXPECT_EQ(of("::1"), Decision::kNone);
  deny("2001:db8:8000::/33");
  EXPECT_EQ(of("2001:db8:8000::1"), Decision::kDeny);
  EXPECT_EQ(of("2001:db8:7fff::1"), Decision::kNone);
  allow("::/0");
  EXPECT_EQ(of("2001:db8:7fff::1"), Decision::kAllow);
}

TEST_F(Rules, MappedClientsGoByTheRulesOfIpv4) {
  deny("::ffff:192.0.2.1");
  EXPECT_EQ(of("::ffff:192.0.2.1"), Decision::kDeny);
  EXPECT_EQ(of("192.0.2.1"), Decision::kNone);
  allow("192.0.2.0/24");
  EXPECT_EQ(of("::ffff:192.0.2.1"), Decision::kAllow);
  EXPECT_EQ(of("::ffff:198.51.100.1"), Decision::kNone);
}

TEST_F(Rules, UnixSockets) {
  allow("unix:");
  deny("all");
  EXPECT_EQ(of_unix(), Decision::kAllow);
  EXPECT_EQ(of("127.0.0.1"), Decision::kDeny);
}

TEST_F(Rules, Malformed) {
  for (std::string_view text : {"", "any", "192.0.2.1/33", "192.0.2.1/", "192.0.2", "::1/129",
                                "unix:/run/x", "192.0.2.1/255.255.255.0", "192.0.2.1 "}) {
    EXPECT_FALSE(rules.add(arena, text, true, low_bits)) << text;
  }
  EXPECT_TRUE(rules.empty());
}

}  // namespace
}  // namespace corehttpd::access
