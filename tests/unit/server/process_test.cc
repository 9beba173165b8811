#include "server/process.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace corehttpd::server {
namespace {

TEST(Environment, KeepsWhatIsNamedAndTheTimeZone) {
  ::setenv("TZ", "UTC", 1);
  ::setenv("KEPT", "old value", 1);
  ::setenv("SECRET", "x", 1);
  EnvironmentVariable kept{"KEPT", nullptr};
  EnvironmentVariable set{"SET=a=b", &kept};
  EnvironmentVariable empty{"EMPTY=", &set};
  EnvironmentVariable missing{"MISSING", &empty};
  ServerSettings settings;
  settings.environment = &missing;
  limit_environment(settings);
  EXPECT_STREQ(std::getenv("TZ"), "UTC");
  EXPECT_STREQ(std::getenv("KEPT"), "old value");
  EXPECT_STREQ(std::getenv("SET"), "a=b");
  EXPECT_STREQ(std::getenv("EMPTY"), "");
  EXPECT_EQ(std::getenv("SECRET"), nullptr);
  EXPECT_EQ(std::getenv("MISSING"), nullptr);
}

}  // namespace
}  // namespace corehttpd::server
