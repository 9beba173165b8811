#include "corehttpd/http/negotiation.h"

#include <gtest/gtest.h>

namespace corehttpd::http {
namespace {

int weight(std::string_view field, std::string_view coding) {
  return AcceptedCodings(field).weight(coding);
}

TEST(Negotiation, Weights) {
  EXPECT_EQ(weight("", "gzip"), 0);
  EXPECT_EQ(weight("gzip", "gzip"), 1000);
  EXPECT_EQ(weight("deflate, GZIP;q=0.25", "gzip"), 250);
  EXPECT_EQ(weight("x-gzip", "gzip"), 1000);
  EXPECT_EQ(weight("x-br", "br"), 0);
  EXPECT_EQ(weight("br ; Q=0.999", "br"), 999);
  EXPECT_EQ(weight("br;q=0", "br"), 0);
  EXPECT_EQ(weight("br;q=", "br"), 1000);
  EXPECT_EQ(weight("gzip;q=0.1, gzip;q=0.7", "gzip"), 700);
}

TEST(Negotiation, AnyCodingAndIdentity) {
  EXPECT_EQ(weight("*", "br"), 1000);
  EXPECT_EQ(weight("*;q=0.5, br;q=0", "br"), 0);
  EXPECT_EQ(weight("br;q=0, *;q=0.5", "zstd"), 500);
  EXPECT_EQ(AcceptedCodings("gzip").identity_weight(), 0);
  EXPECT_EQ(AcceptedCodings("identity;q=0.5, gzip;q=0.4").identity_weight(), 500);
}

}  // namespace
}  // namespace corehttpd::http
