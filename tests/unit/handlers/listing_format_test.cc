#include "handlers/listing_format.h"

#include <gtest/gtest.h>

namespace corehttpd::handlers {
namespace {

using assets::DirectoryEntry;
using Kind = DirectoryEntry::Kind;

std::string entry(std::string_view name, Kind kind, const ListingOptions& options,
                  std::uint64_t size = 7) {
  std::string out;
  append_listing_entry(out, options, {name, size, 1700000000, kind}, true);
  return out;
}

std::string size_column(std::uint64_t size) {
  const std::string line = entry("a", Kind::kFile, {.exact_size = false}, size);
  return line.substr(line.size() - 9, 7);
}

TEST(ListingFormat, RoundedSizes) {
  EXPECT_EQ(size_column(0), "      0");
  EXPECT_EQ(size_column(9999), "   9999");
  EXPECT_EQ(size_column(10000), "    10K");
  EXPECT_EQ(size_column(10752), "    11K");
  EXPECT_EQ(size_column((1 << 20) - 1), "  1024K");
  EXPECT_EQ(size_column(1 << 20), "     1M");
  EXPECT_EQ(size_column((3u << 20) / 2), "     2M");
  EXPECT_EQ(size_column((1u << 30) - 1), "  1024M");
  EXPECT_EQ(size_column(5ull << 30), "     5G");
}

TEST(ListingFormat, NamesThatAreNotUtf8AreCountedInBytes) {
  const std::string name = std::string(49, 'a') + "\xff";
  EXPECT_NE(entry(name, Kind::kFile, {}).find("\xff</a> "), std::string::npos);
  EXPECT_NE(entry(name + "b", Kind::kFile, {}).find(std::string(47, 'a') + "..&gt;</a> 14"),
            std::string::npos);
}

TEST(ListingFormat, ADirectorysSlashCountsAsAColumn) {
  const std::string full(50, 'd');
  EXPECT_NE(entry(full, Kind::kDirectory, {}).find(">" + full + "</a> 14"), std::string::npos);
  const std::string almost(49, 'd');
  EXPECT_NE(entry(almost, Kind::kDirectory, {}).find(">" + almost + "/</a> 14"), std::string::npos);
}

TEST(ListingFormat, Callbacks) {
  EXPECT_TRUE(is_callback(""));
  EXPECT_TRUE(is_callback("jQuery.cb_1"));
  EXPECT_FALSE(is_callback("a b"));
  EXPECT_FALSE(is_callback("a%28"));
  EXPECT_TRUE(is_callback(std::string(128, 'a')));
  EXPECT_FALSE(is_callback(std::string(129, 'a')));
}

}  // namespace
}  // namespace corehttpd::handlers
