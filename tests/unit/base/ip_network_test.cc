#include "corehttpd/base/ip_network.h"

#include <gtest/gtest.h>

namespace corehttpd {
namespace {

bool contains(std::string_view network, std::string_view address) {
  return IpNetwork::parse(network)->contains(IpAddress::parse(address));
}

TEST(IpNetwork, Contains) {
  EXPECT_TRUE(contains("192.0.2.0/24", "192.0.2.255"));
  EXPECT_FALSE(contains("192.0.2.0/24", "192.0.3.0"));
  EXPECT_TRUE(contains("192.0.2.128/25", "192.0.2.129"));
  EXPECT_FALSE(contains("192.0.2.128/25", "192.0.2.127"));
  EXPECT_TRUE(contains("192.0.2.77/24", "192.0.2.1"));  // Bits after the prefix do not count.
  EXPECT_TRUE(contains("0.0.0.0/0", "203.0.113.9"));
  EXPECT_FALSE(contains("0.0.0.0/0", "::1"));
  EXPECT_TRUE(contains("192.0.2.1", "192.0.2.1"));
  EXPECT_FALSE(contains("192.0.2.1", "192.0.2.2"));
  EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(contains("192.0.2.0/24", "::ffff:192.0.2.5"));
  EXPECT_TRUE(contains("::ffff:0:0/96", "::ffff:192.0.2.5"));
}

TEST(IpNetwork, Unix) {
  IpAddress unix_client;
  unix_client.family = IpAddress::Family::kUnix;
  EXPECT_TRUE(IpNetwork::parse("unix:")->contains(unix_client));
  EXPECT_FALSE(contains("unix:", "127.0.0.1"));
  EXPECT_FALSE(IpNetwork::parse("0.0.0.0/0")->contains(unix_client));
}

TEST(IpNetwork, Malformed) {
  for (const char* text : {"", "x", "192.0.2.0/33", "192.0.2.0/", "192.0.2/24", "::/129", "/8",
                           "192.0.2.0/-1", "192.0.2.0/2 4"})
    EXPECT_FALSE(IpNetwork::parse(text)) << text;
}

}  // namespace
}  // namespace corehttpd
