#include "server/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace corehttpd::server {
namespace {

class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/core-sandbox-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base_ = name;
    ASSERT_EQ(::mkdir((base_ + "/ours").c_str(), 0700), 0);
    ASSERT_EQ(::mkdir((base_ + "/theirs").c_str(), 0700), 0);
    write_file(base_ + "/theirs/page");
  }
  void TearDown() override {
    for (const char* name : {"/ours/new", "/theirs/new", "/theirs/page"})
      ::unlink((base_ + name).c_str());
    ::rmdir((base_ + "/ours").c_str());
    ::rmdir((base_ + "/theirs").c_str());
    ::rmdir(base_.c_str());
  }
  static int write_file(const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    if (fd < 0) return errno;
    ::close(fd);
    return 0;
  }
  // Confines a child and runs function there; its exit status.
  template <class Function>
  int confined(Function function) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto state = enter_sandbox({base_ + "/ours", base_ + "/missing"});
      if (!state) ::_exit(200);
      ::_exit(function(*state));
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  }
  std::string base_;
};

TEST_F(SandboxTest, WritesOnlyWhereItMay) {
  const int status = confined([&](const SandboxState& state) {
    if (write_file(base_ + "/ours/new") != 0) return 1;
    if (!state.files) return 100;
    if (write_file(base_ + "/theirs/new") != EACCES) return 2;
    if (::unlink((base_ + "/theirs/page").c_str()) == 0 || errno != EACCES) return 3;
    if (::rename((base_ + "/theirs/page").c_str(), (base_ + "/ours/page").c_str()) == 0) return 4;
    // Reading is free.
    return ::open((base_ + "/theirs/page").c_str(), O_RDONLY) >= 0 ? 0 : 5;
  });
  if (status == 100) GTEST_SKIP() << "the kernel has no Landlock";
  EXPECT_EQ(status, 0);
}

TEST_F(SandboxTest, StartsNoProgramAndTracesNobody) {
  const int status = confined([](const SandboxState& state) {
    if (!state.calls) return 100;
    ::execl("/bin/true", "true", nullptr);
    if (errno != EPERM && errno != EACCES) return 1;
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 || errno != EPERM) return 2;
    if (::setuid(::getuid()) == 0 || errno != EPERM) return 3;
    return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 4;
  });
  if (status == 100) GTEST_SKIP() << "the kernel has no seccomp";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace corehttpd::server
