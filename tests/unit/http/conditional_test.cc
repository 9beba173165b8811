#include "corehttpd/http/conditional.h"

#include <gtest/gtest.h>

namespace corehttpd::http {
namespace {

using Mode = CoreSettings::IfModifiedSince;

// Sun, 06 Nov 1994 08:49:37 GMT, RFC 9110's own example.
constexpr std::int64_t kTime = 784111777;
constexpr std::string_view kDate = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr std::string_view kEarlier = "Sun, 06 Nov 1994 08:49:36 GMT";
constexpr std::string_view kLater = "Sun, 06 Nov 1994 08:49:38 GMT";
constexpr Validators kBoth{"\"abc\"", kTime};

class ConditionalTest : public ::testing::Test {
 protected:
  void field(std::string_view name, std::string_view value) {
    request.fields.add(arena, name, value);
  }
  Precondition evaluate(const Validators& validators = kBoth, Mode mode = Mode::kExact) {
    const Precondition result = evaluate_preconditions(request, validators, mode);
    request.fields.clear();
    return result;
  }
  ConditionalTest() { request.method = Method::kGet; }
  Arena arena;
  RequestHead request;
};

TEST_F(ConditionalTest, NothingAskedProceeds) { EXPECT_EQ(evaluate(), Precondition::kProceed); }

TEST_F(ConditionalTest, IfNoneMatchComparesWeakly) {
  struct Case {
    std::string_view value;
    Validators validators;
    Precondition expected;
  };
  const Case cases[] = {
      {"\"abc\"", kBoth, Precondition::kNotModified},
      {"W/\"abc\"", kBoth, Precondition::kNotModified},
      {"\"abc\"", {"W/\"abc\"", kTime}, Precondition::kNotModified},
      {"\"x\", W/\"y,\\\"z\", \"abc\"", kBoth, Precondition::kNotModified},
      {"*", kBoth, Precondition::kNotModified},
      {"\"ABC\"", kBoth, Precondition::kProceed},
      {"abc", kBoth, Precondition::kProceed},
      {"\"abc\"", {"", kTime}, Precondition::kProceed},
      {"", kBoth, Precondition::kProceed},
  };
  for (const Case& c : cases) {
    field("If-None-Match", c.value);
    EXPECT_EQ(evaluate(c.validators), c.expected) << c.value;
  }
}

TEST_F(ConditionalTest, IfNoneMatchInSeveralLines) {
  field("If-None-Match", "\"x\"");
  field("If-None-Match", "\"abc\"");
  EXPECT_EQ(evaluate(), Precondition::kNotModified);
}

TEST_F(ConditionalTest, IfNoneMatchOfAWriteFails) {
  request.method = Method::kPut;
  field("If-None-Match", "*");
  EXPECT_EQ(evaluate(), Precondition::kFailed);
}

TEST_F(ConditionalTest, IfNoneMatchOverridesIfModifiedSince) {
  field("If-None-Match", "\"x\"");
  field("If-Modified-Since", kDate);
  EXPECT_EQ(evaluate(), Precondition::kProceed);
  field("If-None-Match", "\"abc\"");
  field("If-Modified-Since", kEarlier);
  EXPECT_EQ(evaluate(), Precondition::kNotModified);
}

TEST_F(ConditionalTest, IfModifiedSinceByMode) {
  struct Case {
    std::string_view date;
    Mode mode;
    Precondition expected;
  };
  const Case cases[] = {
      {kDate, Mode::kExact, Precondition::kNotModified},
      {kLater, Mode::kExact, Precondition::kProceed},
      {kEarlier, Mode::kExact, Precondition::kProceed},
      {kDate, Mode::kBefore, Precondition::kNotModified},
      {kLater, Mode::kBefore, Precondition::kNotModified},
      {kEarlier, Mode::kBefore, Precondition::kProceed},
      {kDate, Mode::kOff, Precondition::kProceed},
      {"yesterday", Mode::kBefore, Precondition::kProceed},
      {"Sunday, 06-Nov-94 08:49:37 GMT", Mode::kExact, Precondition::kNotModified},
  };
  for (const Case& c : cases) {
    field("If-Modified-Since", c.date);
    EXPECT_EQ(evaluate(kBoth, c.mode), c.expected) << c.date;
  }
  field("If-Modified-Since", kDate);
  EXPECT_EQ(evaluate({"\"abc\"", -1}), Precondition::kProceed);
  request.method = Method::kPost;
  field("If-Modified-Since", kDate);
  EXPECT_EQ(evaluate(), Precondition::kProceed);
}

TEST_F(ConditionalTest, IfMatchComparesStrongly) {
  struct Case {
    std::string_view value;
    Validators validators;
    Precondition expected;
  };
  const Case cases[] = {
      {"\"abc\"", kBoth, Precondition::kProceed},
      {"\"x\", \"abc\"", kBoth, Precondition::kProceed},
      {"*", kBoth, Precondition::kProceed},
      {"\"x\"", kBoth, Precondition::kFailed},
      {"W/\"abc\"", kBoth, Precondition::kFailed},
      {"W/\"abc\"", {"W/\"abc\"", kTime}, Precondition::kFailed},
      {"\"abc\"", {"", kTime}, Precondition::kFailed},
  };
  for (const Case& c : cases) {
    field("If-Match", c.value);
    EXPECT_EQ(evaluate(c.validators), c.expected) << c.value;
  }
}

TEST_F(ConditionalTest, IfUnmodifiedSince) {
  field("If-Unmodified-Since", kDate);
  EXPECT_EQ(evaluate(), Precondition::kProceed);
  field("If-Unmodified-Since", kLater);
  EXPECT_EQ(evaluate(), Precondition::kProceed);
  field("If-Unmodified-Since", kEarlier);
  EXPECT_EQ(evaluate(), Precondition::kFailed);
  field("If-Unmodified-Since", "never");
  EXPECT_EQ(evaluate(), Precondition::kProceed);
  field("If-Unmodified-Since", kEarlier);
  EXPECT_EQ(evaluate({"\"abc\"", -1}), Precondition::kProceed);
}

TEST_F(ConditionalTest, OrderOfPrecedence) {
  // If-Match holds: If-Unmodified-Since is not asked.
  field("If-Match", "\"abc\"");
  field("If-Unmodified-Since", kEarlier);
  EXPECT_EQ(evaluate(), Precondition::kProceed);
  // A failed If-Match is 412 though If-None-Match would be 304.
  field("If-None-Match", "\"abc\"");
  field("If-Match", "\"x\"");
  EXPECT_EQ(evaluate(), Precondition::kFailed);
  field("If-None-Match", "\"abc\"");
  field("If-Match", "\"abc\"");
  EXPECT_EQ(evaluate(), Precondition::kNotModified);
}

TEST_F(ConditionalTest, IfRange) {
  EXPECT_TRUE(if_range_matches(request, kBoth));
  struct Case {
    std::string_view value;
    Validators validators;
    bool expected;
  };
  const Case cases[] = {
      {"\"abc\"", kBoth, true},
      {"\"x\"", kBoth, false},
      {"W/\"abc\"", {"W/\"abc\"", kTime}, false},
      {"\"abc\"", {"W/\"abc\"", kTime}, false},
      {kDate, kBoth, true},
      {kLater, kBoth, false},
      {kEarlier, kBoth, false},
      {kDate, {"\"abc\"", -1}, false},
      {"soon", {"", -1}, false},
      {"", kBoth, false},
  };
  for (const Case& c : cases) {
    request.fields.clear();
    field("If-Range", c.value);
    EXPECT_EQ(if_range_matches(request, c.validators), c.expected) << c.value;
  }
}

}  // namespace
}  // namespace corehttpd::http
