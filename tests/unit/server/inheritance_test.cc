#include "server/inheritance.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace corehttpd::server {
namespace {

TEST(Inheritance, IsReadAsItWasWritten) {
  Inheritance given;
  given.listeners = {5, 6};
  given.elders = {{7, 2}, {8, 1}};
  given.counters = 9;
  given.ready = 10;
  given.generation = 41;
  const std::string text = encode(given);
  EXPECT_EQ(text, "v1;generation=41;listen=5;listen=6;elder=7:2;elder=8:1;counters=9;ready=10");
  const auto read = decode(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->listeners, given.listeners);
  ASSERT_EQ(read->elders.size(), 2u);
  EXPECT_EQ(read->elders[0].pidfd, 7);
  EXPECT_EQ(read->elders[0].generations, 2u);
  EXPECT_EQ(read->counters, 9);
  EXPECT_EQ(read->ready, 10);
  EXPECT_EQ(read->generation, 41u);
}

// Back from version N+1, which knows more.
TEST(Inheritance, UnknownWordsAreLeftOut) {
  const auto read = decode("v1;tickets=12;listen=5;new;generation=3");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->listeners, std::vector<int>{5});
  EXPECT_EQ(read->generation, 3u);
  EXPECT_EQ(read->counters, -1);
}

TEST(Inheritance, NonsenseIsNone) {
  for (const char* text : {"", "v2;listen=5", "v1;listen=x", "v1;listen=-1", "v1;listen=99999999",
                           "v1;elder=5", "v1;elder=5:x", "v1;generation="}) {
    EXPECT_FALSE(decode(text)) << text;
  }
}

TEST(Inheritance, OnlyOpenDescriptorsAreTaken) {
  const int open_one = ::open("/dev/null", O_RDONLY);
  ASSERT_GT(open_one, 2);
  const std::string text =
      "v1;listen=" + std::to_string(open_one) + ";listen=900000;counters=900001";
  ::setenv(kInheritanceVariable, text.c_str(), 1);
  const auto taken = take_inheritance();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->listeners, std::vector<int>{open_one});
  EXPECT_EQ(taken->counters, -1);
  EXPECT_EQ(std::getenv(kInheritanceVariable), nullptr);
  EXPECT_EQ(::fcntl(open_one, F_GETFD), FD_CLOEXEC);
  ::close(open_one);
  EXPECT_FALSE(take_inheritance());
}

}  // namespace
}  // namespace corehttpd::server
