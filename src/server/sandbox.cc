#include "server/sandbox.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "corehttpd/http/log_files.h"
#include "corehttpd/http/temp_paths.h"

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)  // Linux 6.2; Debian 12's headers are of 6.1.
#endif

namespace corehttpd::server {
namespace {

// Everything that changes the file system, or runs a program. All but TRUNCATE is known to the
// first version of Landlock.
constexpr std::uint64_t kWriting = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                   LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                   LANDLOCK_ACCESS_FS_MAKE_REG;
constexpr std::uint64_t kNever = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

Result<> allow_beneath(int ruleset, const std::string& directory, std::uint64_t rights) {
  const int fd = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return {};  // Whoever needs it will say so.
  const landlock_path_beneath_attr rule{rights, fd};
  const long added =
      ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  const int error = errno;
  ::close(fd);
  if (added != 0) return std::unexpected(error_from_errno(error, "landlock_add_rule()"));
  return {};
}

Result<bool> restrict_files(const std::vector<std::string>& writable) {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return false;
  std::uint64_t rights = kWriting;
  if (version >= 3) rights |= LANDLOCK_ACCESS_FS_TRUNCATE;
  landlock_ruleset_attr ruleset_attributes{};
  ruleset_attributes.handled_access_fs = rights | kNever;
  const int ruleset = static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &ruleset_attributes, sizeof(ruleset_attributes), 0));
  if (ruleset < 0) return std::unexpected(error_from_errno(errno, "landlock_create_ruleset()"));
  Result<> done{};
  for (const std::string& directory : writable) {
    done = allow_beneath(ruleset, directory, rights);
    if (!done) break;
  }
  if (done && ::syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
    done = std::unexpected(error_from_errno(errno, "landlock_restrict_self()"));
  ::close(ruleset);
  if (!done) return std::unexpected(done.error());
  return true;
}

// No allow-list: it would have to know each call that libc and the libraries make in every version
// of them. These are what a server in steady state has no use for, in any version.
constexpr int kRefused[] = {
    // Other programs and other processes.
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(personality),
    // Identity and confinement.
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setregid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(setgroups),
    SCMP_SYS(setfsuid),
    SCMP_SYS(setfsgid),
    SCMP_SYS(capset),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(chroot),
    SCMP_SYS(pivot_root),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsmount),
    SCMP_SYS(fsconfig),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(quotactl),
    SCMP_SYS(acct),
    // The kernel's innards.
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    SCMP_SYS(syslog),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(name_to_handle_at),
    SCMP_SYS(vmsplice),
};

Result<bool> restrict_calls() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (filter == nullptr) return fail(Code::kUnavailable, "seccomp_init()");
  int error = 0;
  for (int call : kRefused) {
    // An error, not a signal: what asks for it in good faith finds it missing and goes on.
    const int added = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
    if (added != 0 && added != -EDOM && error == 0) error = -added;
  }
  if (error == 0) error = -seccomp_load(filter);
  seccomp_release(filter);
  if (error == EINVAL || error == ENOSYS) return false;  // A kernel without filters.
  if (error != 0) return std::unexpected(error_from_errno(error, "seccomp_load()"));
  return true;
}

// A folder that is made later can be written to as in nginx, without a reload: the one above it is
// allowed meanwhile. But never the whole tree unless it was asked for.
std::string nearest_existing(const std::string& directory) {
  std::string path = directory;
  while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0) {
    if (path.back() == '/') path.pop_back();
    path.resize(path.rfind('/') + 1);
  }
  return path == "/" ? directory : path;
}

}  // namespace

std::vector<std::string> writable_directories(const conf::Configuration& configuration) {
  // Sockets of a system logger and the null device are opened for writing there.
  std::vector<std::string> directories{"/dev", std::string(http::kDefaultTempPath)};
  if (const auto* paths = configuration.object<http::TempPaths>())
    directories.insert(directories.end(), paths->paths().begin(), paths->paths().end());
  // Access logs whose names have variables are opened by the worker.
  if (const auto* files = configuration.object<http::LogFiles>()) {
    for (std::string_view directory : files->worker_directories())
      directories.push_back(nearest_existing(std::string(directory)));
  }
  return directories;
}

Result<SandboxState> enter_sandbox(const std::vector<std::string>& writable) {
  // Both ask for it of whoever is not root.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return std::unexpected(error_from_errno(errno, "prctl(PR_SET_NO_NEW_PRIVS)"));
  SandboxState state;
  auto files = restrict_files(writable);
  if (!files) return std::unexpected(files.error());
  state.files = *files;
  auto calls = restrict_calls();
  if (!calls) return std::unexpected(calls.error());
  state.calls = *calls;
  return state;
}

}  // namespace corehttpd::server
