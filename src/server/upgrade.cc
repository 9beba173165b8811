#include "server/upgrade.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace corehttpd::server {
namespace {

constexpr Milliseconds kPatience = 60'000;
constexpr std::size_t kReasonMax = 4096;

// In the child: never returns.
[[noreturn]] void execute(const Invocation& invocation, const Inheritance& inheritance,
                          const sigset_t& mask) {
  for (int fd : descriptors(inheritance)) ::fcntl(fd, F_SETFD, 0);
  ::setenv(kInheritanceVariable, encode(inheritance).c_str(), 1);
  // The watchdog is the next master's from now on.
  if (std::getenv("WATCHDOG_PID") != nullptr)
    ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : invocation.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execv(invocation.executable.c_str(), arguments.data());
  int ready = inheritance.ready;
  report_to_elder(ready, "execve() of \"" + invocation.executable + "\" failed (" +
                             std::to_string(errno) + ": " + std::strerror(errno) + ")");
  ::_exit(1);
}

}  // namespace

Invocation remember_invocation(int argc, char** argv) {
  Invocation invocation;
  invocation.arguments.assign(argv, argv + argc);
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  invocation.executable =
      length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string(argv[0]);
  return invocation;
}

Upgrade::~Upgrade() { forget(); }

void Upgrade::forget() {
  if (ready_ >= 0) ::close(ready_);
  ready_ = -1;
  pid_ = -1;
}

Result<> Upgrade::start(const Invocation& invocation, Inheritance inheritance,
                        std::uint32_t generations, const sigset_t& mask, Milliseconds now_ms) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    return std::unexpected(error_from_errno(errno, "pipe2()"));
  const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  inheritance.ready = pipe[1];
  if (self >= 0) inheritance.elders.push_back({self, generations});
  const pid_t pid = ::fork();
  if (pid == 0) execute(invocation, inheritance, mask);
  const int fork_errno = errno;
  ::close(pipe[1]);
  if (self >= 0) ::close(self);
  if (pid < 0) {
    ::close(pipe[0]);
    return std::unexpected(error_from_errno(fork_errno, "fork()"));
  }
  pid_ = pid;
  ready_ = pipe[0];
  started_ms_ = now_ms;
  too_late_ = false;
  said_.clear();
  return {};
}

bool Upgrade::ready(Milliseconds now_ms) {
  while (ready_ >= 0) {
    char buffer[512];
    const ssize_t got = ::read(ready_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (got == 0) {
      // Tells nothing yet: how the child ends will say more.
      ::close(ready_);
      ready_ = -1;
    }
    if (said_.size() < kReasonMax) said_.append(buffer, static_cast<std::size_t>(got));
  }
  if (said_ == "ready\n") return true;
  if (now_ms - started_ms_ >= kPatience && !too_late_) {
    too_late_ = true;
    ::kill(pid_, SIGKILL);
  }
  return false;
}

std::string Upgrade::ended(int status) {
  ready(started_ms_);
  while (said_.ends_with('\n')) said_.pop_back();
  std::string reason = too_late_ ? "not ready after " + std::to_string(kPatience / 1000) + " s"
                       : said_.empty() ? cause_of_end(status)
                                       : said_;
  forget();
  return reason;
}

void report_to_elder(int& fd, const std::string& message) {
  if (fd < 0) return;
  const std::string line = message + "\n";
  // Fits into any pipe; an elder that is gone has no need of it.
  [[maybe_unused]] const ssize_t written = ::write(fd, line.data(), line.size());
  ::close(fd);
  fd = -1;
}

std::string cause_of_end(int status) {
  if (WIFSIGNALED(status)) {
    return "exited on signal " + std::to_string(WTERMSIG(status)) +
           (WCOREDUMP(status) ? " (core dumped)" : "");
  }
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace corehttpd::server
