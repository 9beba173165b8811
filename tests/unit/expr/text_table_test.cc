#include "corehttpd/expr/text_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace corehttpd::expr {
namespace {

using Added = HostTableBuilder::Added;

TEST(TextTable, FindsItsKeysAndNoOthers) {
  Arena arena;
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<TextTable::Entry> entries;
  for (std::uint32_t i = 0; i < keys.size(); ++i) entries.push_back({keys[i], i});
  TextTable table;
  table.build(arena, entries);
  for (std::uint32_t i = 0; i < keys.size(); ++i) EXPECT_EQ(table.find(keys[i]), i);
  EXPECT_EQ(table.find("key1000"), TextTable::kNone);
  EXPECT_EQ(table.find(""), TextTable::kNone);
  EXPECT_EQ(table.find("KEY1"), TextTable::kNone);
  EXPECT_EQ(table.find_ignore_case("KEY1"), 1u);
}

TEST(TextTable, EmptyFindsNothing) {
  Arena arena;
  TextTable table;
  EXPECT_EQ(table.find("x"), TextTable::kNone);
  table.build(arena, {});
  EXPECT_EQ(table.find("x"), TextTable::kNone);
}

TEST(HostTable, ExactBeforeLongestLeadingBeforeLongestTrailing) {
  Arena arena;
  HostTableBuilder builder;
  EXPECT_EQ(builder.add("www.example.org", 1), Added::kYes);
  EXPECT_EQ(builder.add("*.example.org", 2), Added::kYes);
  EXPECT_EQ(builder.add("*.sub.example.org", 3), Added::kYes);
  EXPECT_EQ(builder.add("www.example.*", 4), Added::kYes);
  EXPECT_EQ(builder.add("www.*", 5), Added::kYes);
  const HostTable table = builder.build(arena);
  EXPECT_EQ(table.find("www.example.org"), 1u);
  EXPECT_EQ(table.find("mail.example.org"), 2u);
  EXPECT_EQ(table.find("a.b.example.org"), 2u);
  EXPECT_EQ(table.find("x.sub.example.org"), 3u);
  EXPECT_EQ(table.find("sub.example.org"), 2u);
  EXPECT_EQ(table.find("example.org"), HostTable::kNone);
  EXPECT_EQ(table.find(".example.org"), HostTable::kNone);
  EXPECT_EQ(table.find("www.example.com"), 4u);
  EXPECT_EQ(table.find("www.example.co.uk"), 4u);
  EXPECT_EQ(table.find("www.other.com"), 5u);
  EXPECT_EQ(table.find("www."), HostTable::kNone);
  EXPECT_EQ(table.find(""), HostTable::kNone);
}

TEST(HostTable, LeadingDotIsTheNameAndItsMask) {
  Arena arena;
  HostTableBuilder builder;
  EXPECT_EQ(builder.add(".example.org", 1), Added::kYes);
  EXPECT_EQ(builder.add("example.org", 2), Added::kDuplicate);
  EXPECT_EQ(builder.add("*.example.org", 3), Added::kDuplicate);
  const HostTable table = builder.build(arena);
  EXPECT_EQ(table.find("example.org"), 1u);
  EXPECT_EQ(table.find("a.example.org"), 1u);
  EXPECT_EQ(table.find("notexample.org"), HostTable::kNone);
}

TEST(HostTable, RefusesWhatIsNoName) {
  HostTableBuilder builder;
  EXPECT_EQ(builder.add("a..b", 1), Added::kInvalid);
  EXPECT_EQ(builder.add("*", 1), Added::kInvalid);
  EXPECT_EQ(builder.add("a.*.b", 1), Added::kInvalid);
  EXPECT_EQ(builder.add("*a.b", 1), Added::kInvalid);
  EXPECT_EQ(builder.add("*.a.*", 1), Added::kInvalid);
  EXPECT_EQ(builder.add("", 1), Added::kYes);
}

}  // namespace
}  // namespace corehttpd::expr
