#include "access/forwarded.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace corehttpd::access {
namespace {

// Where the walk ends for a client at 10.0.0.1, with 10.0.0.0/8 and 2001:db8::/32 trusted.
std::string follow(std::initializer_list<std::string_view> values, bool recursive,
                   std::string_view client = "10.0.0.1") {
  const std::vector<IpNetwork> trusted = {*IpNetwork::parse("10.0.0.0/8"),
                                          *IpNetwork::parse("2001:db8::/32")};
  IpAddress address = IpAddress::parse(client);
  const bool changed =
      follow_forwarded({values.begin(), values.size()}, trusted, recursive, address);
  char text[IpAddress::kTextMax];
  std::string result(address.format(text));
  if (address.port != 0) result += " port " + std::to_string(address.port);
  return changed ? result : result + " unchanged";
}

TEST(Forwarded, Addresses) {
  const auto text = [](std::string_view value) {
    const IpAddress address = parse_forwarded_address(value);
    char buffer[IpAddress::kTextMax];
    return std::string(address.format(buffer)) + " " + std::to_string(address.port);
  };
  EXPECT_EQ(text("192.0.2.1"), "192.0.2.1 0");
  EXPECT_EQ(text("192.0.2.1:8080"), "192.0.2.1 8080");
  EXPECT_EQ(text("2001:db8::1"), "2001:db8::1 0");
  EXPECT_EQ(text("[2001:db8::1]:443"), "2001:db8::1 443");
  for (std::string_view bad :
       {"", "x", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:", "192.0.2", "[2001:db8::1]",
        "[::1]:", "unix:", "192.0.2.1:1:2", "\"192.0.2.1\""})
    EXPECT_EQ(parse_forwarded_address(bad).family, IpAddress::Family::kNone) << bad;
}

TEST(Forwarded, OnceTheLastOne) {
  EXPECT_EQ(follow({"192.0.2.1"}, false), "192.0.2.1");
  EXPECT_EQ(follow({"203.0.113.9, 192.0.2.1"}, false), "192.0.2.1");
  EXPECT_EQ(follow({"203.0.113.9, 10.0.0.2 , "}, false), "10.0.0.2");
  EXPECT_EQ(follow({"203.0.113.9", "192.0.2.1:81"}, false), "192.0.2.1 port 81");
  EXPECT_EQ(follow({"203.0.113.9"}, false, "192.0.2.7"), "192.0.2.7 unchanged");
  EXPECT_EQ(follow({}, false), "10.0.0.1 unchanged");
}

TEST(Forwarded, RecursiveTheLastThatIsNotTrusted) {
  EXPECT_EQ(follow({"203.0.113.9, 192.0.2.1, 10.0.0.2"}, true), "192.0.2.1");
  EXPECT_EQ(follow({"203.0.113.9, 192.0.2.1", "10.0.0.3, 2001:db8::2"}, true), "192.0.2.1");
  EXPECT_EQ(follow({"10.0.0.5, 10.0.0.4"}, true), "10.0.0.5");
  EXPECT_EQ(follow({"203.0.113.9"}, true, "192.0.2.7"), "192.0.2.7 unchanged");
}

TEST(Forwarded, WhatCannotBeReadEndsTheWalk) {
  EXPECT_EQ(follow({"192.0.2.1, unknown"}, false), "10.0.0.1 unchanged");
  EXPECT_EQ(follow({"192.0.2.1, unknown, 10.0.0.2"}, true), "10.0.0.2");
  EXPECT_EQ(follow({"192.0.2.1", ""}, true), "10.0.0.1 unchanged");
  EXPECT_EQ(follow({"192.0.2.1", " , "}, false), "10.0.0.1 unchanged");
}

}  // namespace
}  // namespace corehttpd::access
