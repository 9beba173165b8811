#include "corehttpd/io/append_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace corehttpd::io {
namespace {

namespace fs = std::filesystem;

class AppendFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/append_file_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    top_ = name;
  }
  void TearDown() override { fs::remove_all(top_); }
  // Opens, appends "x", closes: 0, the errno, or -1 if it was refused.
  int append(const std::string& path) {
    auto file = open_append(path, 0640);
    if (!file) {
      refusal_ = file.error().context;
      return refusal_ == "open()" ? file.error().detail : -1;
    }
    created_ = file->created;
    EXPECT_EQ(::write(file->fd, "x", 1), 1);
    EXPECT_TRUE((::fcntl(file->fd, F_GETFD) & FD_CLOEXEC) != 0);
    EXPECT_EQ(::fcntl(file->fd, F_GETFL) & (O_APPEND | O_NONBLOCK), O_APPEND);
    ::close(file->fd);
    return 0;
  }
  std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string top_, refusal_;
  bool created_ = false;
};

TEST_F(AppendFileTest, CreatesAndAppends) {
  ::umask(022);
  EXPECT_EQ(append(top_ + "/a"), 0);
  EXPECT_TRUE(created_);
  struct stat info {};
  ASSERT_EQ(::stat((top_ + "/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(append(top_ + "//./a"), 0);
  EXPECT_FALSE(created_);
  EXPECT_EQ(append(top_ + "/../" + top_.substr(5) + "/a"), 0);
  EXPECT_EQ(content(top_ + "/a"), "xxx");
}

TEST_F(AppendFileTest, Errors) {
  EXPECT_EQ(append(top_ + "/none/a"), ENOENT);
  EXPECT_EQ(append(top_ + "/"), EISDIR);
  EXPECT_EQ(append(top_), EISDIR);
  EXPECT_EQ(append("relative"), ENOENT);
  EXPECT_EQ(append(""), ENOENT);
  EXPECT_EQ(append("/" + std::string(300, 'a')), ENAMETOOLONG);
  append(top_ + "/a");
  EXPECT_EQ(append(top_ + "/a/b"), ENOTDIR);
  fs::create_symlink("loop", top_ + "/loop");
  EXPECT_EQ(append(top_ + "/loop"), ELOOP);
  EXPECT_EQ(append(top_ + "/loop/a"), ELOOP);
  ::mkfifo((top_ + "/fifo").c_str(), 0600);
  EXPECT_EQ(append(top_ + "/fifo"), ENXIO);  // And does not wait for a reader.
}

TEST_F(AppendFileTest, FollowsOurOwnLinks) {
  fs::create_directories(top_ + "/real/deep");
  fs::create_symlink("real", top_ + "/relative");
  fs::create_symlink(top_ + "/relative/deep", top_ + "/absolute");
  fs::create_symlink("../../made", top_ + "/real/deep/dangling");
  EXPECT_EQ(append(top_ + "/absolute/a"), 0);
  EXPECT_EQ(content(top_ + "/real/deep/a"), "x");
  EXPECT_EQ(append(top_ + "/absolute/dangling"), 0);
  EXPECT_EQ(content(top_ + "/made"), "x");
}

TEST_F(AppendFileTest, DistrustsFoldersOfOthers) {
  fs::create_directory(top_ + "/open");
  ::chmod((top_ + "/open").c_str(), 0777);
  append(top_ + "/victim");
  fs::create_symlink("../victim", top_ + "/open/link");
  fs::create_directory(top_ + "/inner");
  fs::create_symlink("../inner", top_ + "/open/folder");
  fs::create_hard_link(top_ + "/victim", top_ + "/open/hard");
  EXPECT_EQ(append(top_ + "/open/link"), -1);
  EXPECT_EQ(refusal_, "a symbolic link in a folder that others may write to");
  EXPECT_EQ(append(top_ + "/open/folder/a"), -1);
  EXPECT_EQ(append(top_ + "/open/hard"), -1);
  EXPECT_EQ(refusal_, "a file with several names in a folder that others may write to");
  EXPECT_EQ(append(top_ + "/open/plain"), 0);
  EXPECT_EQ(content(top_ + "/victim"), "x");
  // A folder below it that is ours alone is trusted again.
  fs::create_directory(top_ + "/open/ours");
  fs::create_symlink("../../victim", top_ + "/open/ours/link");
  EXPECT_EQ(append(top_ + "/open/ours/link"), 0);
}

TEST_F(AppendFileTest, InStickyFoldersOnlyLinksOfOthersAreRefused) {
  fs::create_directory(top_ + "/sticky");
  ::chmod((top_ + "/sticky").c_str(), 01777);
  fs::create_symlink("../victim", top_ + "/sticky/ours");
  EXPECT_EQ(append(top_ + "/sticky/ours"), 0);
  if (::geteuid() != 0) GTEST_SKIP() << "needs files of others";
  fs::create_symlink("../victim", top_ + "/sticky/theirs");
  ASSERT_EQ(::lchown((top_ + "/sticky/theirs").c_str(), 65534, 65534), 0);
  EXPECT_EQ(append(top_ + "/sticky/theirs"), -1);
}

TEST_F(AppendFileTest, DevicesOfTheSystem) {
  EXPECT_EQ(append("/dev/null"), 0);
  EXPECT_TRUE(is_standard_stream("/dev/stdout"));
  EXPECT_TRUE(is_standard_stream("/proc/self/fd/2"));
  EXPECT_FALSE(is_standard_stream("/dev/null"));
  auto stream = open_append("/dev/stderr", 0640);
  ASSERT_TRUE(stream);
  struct stat a {
  }, b{};
  EXPECT_EQ(::fstat(stream->fd, &a), 0);
  EXPECT_EQ(::fstat(2, &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  ::close(stream->fd);
}

}  // namespace
}  // namespace corehttpd::io
