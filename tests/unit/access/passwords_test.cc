#include "corehttpd/access/passwords.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "corehttpd/io/sim_loop.h"

namespace corehttpd::access {
namespace {

using Answer = PasswordChecks::Answer;

constexpr std::string_view kHash = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/";  // "secret"

struct Waiter : PasswordWaiter {
  Waiter()
      : PasswordWaiter([](PasswordWaiter& waiter, bool match) {
          auto& self = static_cast<Waiter&>(waiter);
          ++self.calls;
          self.match = match;
        }) {}
  int calls = 0;
  bool match = false;
};

class Passwords : public ::testing::Test {
 protected:
  io::SimLoop loop{{}};
  PasswordChecks checks{loop};
};

TEST_F(Passwords, QuickSchemesAnswerAtOnce) {
  Waiter waiter;
  EXPECT_EQ(checks.check("{PLAIN}x", "x", waiter), Answer::kMatch);
  EXPECT_EQ(checks.check("{PLAIN}x", "y", waiter), Answer::kMismatch);
  EXPECT_EQ(loop.outstanding(), 0u);
}

TEST_F(Passwords, SlowOnesWaitAndSuccessesAreRemembered) {
  Waiter waiter;
  EXPECT_EQ(checks.check(kHash, "secret", waiter), Answer::kPending);
  EXPECT_EQ(waiter.calls, 0);
  EXPECT_TRUE(loop.run_until_blocked());
  EXPECT_EQ(waiter.calls, 1);
  EXPECT_TRUE(waiter.match);
  EXPECT_EQ(checks.check(kHash, "secret", waiter), Answer::kMatch);
  // Another hash of the user, or another password, is another question.
  Waiter others[2];
  EXPECT_EQ(checks.check("$apr1$ab$jiiV6N7hIIuIoJbc1hxOE/", "secret", others[0]), Answer::kPending);
  EXPECT_EQ(checks.check(kHash, "Secret", others[1]), Answer::kPending);
  EXPECT_TRUE(loop.run_until_blocked());
  EXPECT_TRUE(others[0].match);
  EXPECT_FALSE(others[1].match);
  // A failure is computed again.
  EXPECT_EQ(checks.check(kHash, "Secret", others[1]), Answer::kPending);
  EXPECT_TRUE(loop.run_until_blocked());
}

TEST_F(Passwords, ASuccessIsForgotten) {
  Waiter waiter;
  EXPECT_EQ(checks.check(kHash, "secret", waiter), Answer::kPending);
  EXPECT_TRUE(loop.run_until_blocked());
  io::Timer timer([](io::Timer&) {});
  loop.schedule(timer, PasswordChecks::kRememberedTime + 1);
  EXPECT_TRUE(loop.run_until_quiet());
  EXPECT_EQ(checks.check(kHash, "secret", waiter), Answer::kPending);
  EXPECT_TRUE(loop.run_until_blocked());
}

TEST_F(Passwords, EqualQuestionsAreAskedOnce) {
  std::vector<Waiter> waiters(20);
  for (Waiter& waiter : waiters) EXPECT_EQ(checks.check(kHash, "secret", waiter), Answer::kPending);
  EXPECT_EQ(loop.outstanding(), 1u);
  EXPECT_TRUE(loop.run_until_blocked());
  for (const Waiter& waiter : waiters) EXPECT_TRUE(waiter.calls == 1 && waiter.match);
}

TEST_F(Passwords, OneAtATimeAndNotTooMany) {
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (std::size_t i = 0; i < PasswordChecks::kChecksMax; ++i) {
    waiters.push_back(std::make_unique<Waiter>());
    EXPECT_EQ(checks.check(kHash, std::to_string(i), *waiters.back()), Answer::kPending);
    EXPECT_EQ(loop.outstanding(), 1u);
  }
  Waiter more;
  EXPECT_EQ(checks.check(kHash, "secret", more), Answer::kBusy);
  EXPECT_TRUE(loop.run_until_blocked());
  for (const auto& waiter : waiters) EXPECT_TRUE(waiter->calls == 1 && !waiter->match);
  EXPECT_EQ(checks.check(kHash, "secret", more), Answer::kPending);
  EXPECT_TRUE(loop.run_until_blocked());
}

TEST_F(Passwords, WhoHasGoneIsNotCalledAndCostsNothing) {
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 10; ++i) {
    waiters.push_back(std::make_unique<Waiter>());
    EXPECT_EQ(checks.check(kHash, std::to_string(i), *waiters.back()), Answer::kPending);
  }
  waiters.clear();
  Waiter stays;
  EXPECT_EQ(checks.check(kHash, "secret", stays), Answer::kPending);
  EXPECT_TRUE(loop.run_until_blocked());
  EXPECT_TRUE(stays.match);
}

}  // namespace
}  // namespace corehttpd::access
