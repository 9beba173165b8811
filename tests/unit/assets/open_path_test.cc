#include "assets/open_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "support/temp_dir.h"

namespace corehttpd::assets {
namespace {

class OpenPath : public ::testing::Test {
 protected:
  void SetUp() override {
    directory.write("dir/a.txt", "a");
    link("a.txt", "dir/link");
    link("dir", "linkdir");
    link(directory.path("dir/a.txt"), "absolute");
    link("loop", "loop");
  }
  void link(const std::string& target, std::string_view name) {
    ASSERT_EQ(::symlink(target.c_str(), directory.path(name).c_str()), 0);
  }
  int status(std::string_view name, Links links, std::string_view from = {}) {
    struct stat ignored;
    const std::string path = directory.path(name);
    const auto trusted = static_cast<std::uint32_t>(from.empty() ? directory.path().size()
                                                                 : directory.path(from).size());
    return stat_path(path, {links, trusted}, ignored);
  }
  std::string content(std::string_view name, Links links) {
    const std::string path = directory.path(name);
    const int fd =
        open_path(path, {links, static_cast<std::uint32_t>(directory.path().size())}, kOpenToRead);
    if (fd < 0) return "error " + std::to_string(-fd);
    char text[16];
    const ssize_t count = ::read(fd, text, sizeof text);
    ::close(fd);
    return {text, static_cast<std::size_t>(count < 0 ? 0 : count)};
  }
  test::TempDir directory;
};

TEST_F(OpenPath, LinksAreRefused) {
  EXPECT_EQ(status("dir/a.txt", Links::kNever), 0);
  EXPECT_EQ(status("dir/link", Links::kNever), ELOOP);
  EXPECT_EQ(status("linkdir/a.txt", Links::kNever), ELOOP);
  EXPECT_EQ(status("linkdir/a.txt", Links::kNever, "linkdir"), 0);
  EXPECT_EQ(status("dir/none", Links::kNever), ENOENT);
  EXPECT_EQ(status("dir/a.txt/x", Links::kNever), ENOTDIR);
}

TEST_F(OpenPath, LinksOfTheSameOwnerAreFollowed) {
  for (const char* name : {"dir/a.txt", "dir/link", "linkdir/a.txt", "linkdir/link", "absolute"}) {
    EXPECT_EQ(status(name, Links::kSameOwner), 0) << name;
    EXPECT_EQ(content(name, Links::kSameOwner), "a") << name;
  }
  EXPECT_EQ(status("loop", Links::kSameOwner), ELOOP);
  EXPECT_EQ(status("dir/a.txt/", Links::kSameOwner), ENOTDIR);
  EXPECT_EQ(status("dir/none", Links::kSameOwner), ENOENT);
  EXPECT_EQ(status("dir/", Links::kSameOwner), 0);
}

TEST_F(OpenPath, LinksOfAnotherOwnerAreNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs files of several owners";
  ASSERT_EQ(::lchown(directory.path("dir/link").c_str(), 12345, 12345), 0);
  EXPECT_EQ(status("dir/link", Links::kSameOwner), ELOOP);
  ASSERT_EQ(::lchown(directory.path("dir/a.txt").c_str(), 12345, 12345), 0);
  EXPECT_EQ(content("dir/link", Links::kSameOwner), "a");
  EXPECT_EQ(status("absolute", Links::kSameOwner), ELOOP);
}

TEST_F(OpenPath, WhatIsCached) {
  const std::string path = directory.path("dir/a.txt");
  const int fd = open_cached(path);  // Just written: its name is in the kernel's caches.
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(is_local(fd));
  ::close(fd);
  struct stat file;
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_EQ(nearest_device(path), file.st_dev);
  EXPECT_EQ(nearest_device(path + "/never/asked/for"), file.st_dev);
}

}  // namespace
}  // namespace corehttpd::assets
