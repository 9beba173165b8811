// A directory that a test fills and that goes with it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace corehttpd::test {

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/corehttpd_test.XXXXXX";
    const char* made = ::mkdtemp(name);
    EXPECT_NE(made, nullptr);
    path_ = made == nullptr ? "" : made;
    ::chmod(path_.c_str(), 0755);  // Tests of permissions look at it as another user.
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Makes the file, or rewrites it in place; directories in name are made.
  std::string write(std::string_view name, std::string_view content) const {
    const std::string full = path(name);
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(full).parent_path(), ignored);
    const int fd = ::open(full.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    EXPECT_GE(fd, 0) << full;
    EXPECT_EQ(::write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::close(fd);
    return full;
  }
  std::string make_directory(std::string_view name) const {
    std::error_code ignored;
    std::filesystem::create_directories(path(name), ignored);
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace corehttpd::test
