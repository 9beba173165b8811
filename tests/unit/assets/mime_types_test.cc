#include "corehttpd/assets/mime_types.h"

#include <gtest/gtest.h>

#include <string>

namespace corehttpd::assets {
namespace {

TEST(MimeTypes, FindsByExtensionWhateverItsCase) {
  Arena arena;
  const MimeType added[] = {
      {"html", "text/html"}, {"JPG", "image/jpeg"}, {"js", "text/javascript"}};
  const MimeTypes* types = MimeTypes::build(arena, nullptr, added);
  EXPECT_EQ(types->find("html"), "text/html");
  EXPECT_EQ(types->find("HtMl"), "text/html");
  EXPECT_EQ(types->find("jpg"), "image/jpeg");
  EXPECT_EQ(types->find("htm"), "");
  EXPECT_EQ(types->find(""), "");
  EXPECT_EQ(types->find(std::string(100, 'x')), "");
}

TEST(MimeTypes, LaterEntriesWinAndBaseIsKept) {
  Arena arena;
  const MimeType first[] = {{"a", "x/a"}, {"b", "x/b"}};
  const MimeTypes* base = MimeTypes::build(arena, nullptr, first);
  const MimeType second[] = {{"b", "y/b"}, {"c", "y/c"}, {"c", "z/c"}};
  const MimeTypes* types = MimeTypes::build(arena, base, second);
  EXPECT_EQ(types->find("a"), "x/a");
  EXPECT_EQ(types->find("b"), "y/b");
  EXPECT_EQ(types->find("c"), "z/c");
  EXPECT_EQ(types->entries().size(), 3u);
  EXPECT_EQ(base->find("b"), "x/b");
}

TEST(MimeTypes, ManyEntriesAreAllFound) {
  Arena arena;
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("e" + std::to_string(i));
  std::vector<MimeType> added;
  for (const std::string& name : names) added.push_back({name, name});
  const MimeTypes* types = MimeTypes::build(arena, nullptr, added);
  for (const std::string& name : names) EXPECT_EQ(types->find(name), name);
  EXPECT_EQ(types->find("e500"), "");
}

TEST(MimeTypes, BuiltInOnesAreNginxs) {
  EXPECT_EQ(builtin_types().find("html"), "text/html");
  EXPECT_EQ(builtin_types().find("gif"), "image/gif");
  EXPECT_EQ(builtin_types().find("jpg"), "image/jpeg");
  EXPECT_EQ(builtin_types().entries().size(), 3u);
}

TEST(UriExtension, IsOfTheLastComponent) {
  EXPECT_EQ(uri_extension("/a/b.html"), "html");
  EXPECT_EQ(uri_extension("/a/b.tar.gz"), "gz");
  EXPECT_EQ(uri_extension("/a.b/c"), "");
  EXPECT_EQ(uri_extension("/a/"), "");
  EXPECT_EQ(uri_extension("/.html"), "");
  EXPECT_EQ(uri_extension("/a/.html"), "");
  EXPECT_EQ(uri_extension("/a."), "");
  EXPECT_EQ(uri_extension(""), "");
}

}  // namespace
}  // namespace corehttpd::assets
