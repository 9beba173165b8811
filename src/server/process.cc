#include "server/process.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "corehttpd/base/log.h"

extern char** environ;

namespace corehttpd::server {
namespace {

char* g_title = nullptr;
std::size_t g_title_bytes = 0;

}  // namespace

void init_title(int argc, char** argv) {
  // argv's strings and then environ's lie in one piece; the environment moves away to make room.
  char* end = argv[0];
  for (int i = 0; i < argc; ++i) {
    if (argv[i] == end) end = argv[i] + std::strlen(argv[i]) + 1;
  }
  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  char** copy = static_cast<char**>(std::calloc(count + 1, sizeof(char*)));
  if (copy == nullptr) return;
  // Remembered to the very end: unsetenv() drops its pointers, and a leak checker would complain.
  static auto* const strings = new std::vector<char*>;
  for (std::size_t i = 0; i < count; ++i) {
    if (environ[i] == end) end = environ[i] + std::strlen(environ[i]) + 1;
    copy[i] = ::strdup(environ[i]);
    strings->push_back(copy[i]);
  }
  environ = copy;
  g_title = argv[0];
  g_title_bytes = static_cast<std::size_t>(end - argv[0]);
}

void set_title(std::string_view title) {
  if (g_title == nullptr || g_title_bytes < 2) return;
  std::memset(g_title, 0, g_title_bytes);
  std::memcpy(g_title, title.data(), std::min(title.size(), g_title_bytes - 1));
}

Result<Identity> resolve_identity(const ServerSettings& settings) {
  Identity identity;
  if (::geteuid() != 0) return identity;
  identity.name = settings.user.empty() ? "www-data" : std::string(settings.user);
  const passwd* user = ::getpwnam(identity.name.c_str());
  if (user == nullptr) return fail(Code::kNotFound, "getpwnam()");
  identity.change = true;
  identity.user = user->pw_uid;
  identity.group = user->pw_gid;
  if (!settings.group.empty()) {
    const group* found = ::getgrnam(std::string(settings.group).c_str());
    if (found == nullptr) return fail(Code::kNotFound, "getgrnam()");
    identity.group = found->gr_gid;
  }
  return identity;
}

Result<> become(const Identity& identity) {
  if (!identity.change) return {};
  if (::setgid(identity.group) != 0) return std::unexpected(error_from_errno(errno, "setgid()"));
  if (::initgroups(identity.name.c_str(), identity.group) != 0)
    return std::unexpected(error_from_errno(errno, "initgroups()"));
  if (::setuid(identity.user) != 0) return std::unexpected(error_from_errno(errno, "setuid()"));
  // Keys and visitors' data are in memory: no core files and no ptrace by others of the same user.
  ::prctl(PR_SET_DUMPABLE, 0);
  return {};
}

std::uint64_t raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  rlimit raised = limit;
  raised.rlim_cur = wanted == 0 ? limit.rlim_max : wanted;
  raised.rlim_max = std::max(raised.rlim_cur, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return raised.rlim_cur;
  // Only root may pass the hard limit; the kernel's fs.nr_open bounds even that.
  raised.rlim_cur = std::min<rlim_t>(raised.rlim_cur, limit.rlim_max);
  raised.rlim_max = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

void limit_core(const std::optional<std::uint64_t>& bytes) {
  const rlim_t size = bytes.value_or(0);
  const rlimit limit{size, size};
  if (::setrlimit(RLIMIT_CORE, &limit) != 0)
    log_errno(nullptr, LogLevel::kAlert, errno, "setrlimit(RLIMIT_CORE, {}) failed", size);
  if (bytes) ::prctl(PR_SET_DUMPABLE, 1);
}

void limit_environment(const ServerSettings& settings) {
  std::vector<std::pair<std::string, std::string>> kept;
  const auto keep = [&](const std::string& name) {
    if (const char* value = std::getenv(name.c_str())) kept.emplace_back(name, value);
  };
  keep("TZ");
  for (const EnvironmentVariable* v = settings.environment; v != nullptr; v = v->next) {
    const std::size_t equals = v->text.find('=');
    if (equals == std::string_view::npos) {
      keep(std::string(v->text));
    } else {
      kept.emplace_back(v->text.substr(0, equals), v->text.substr(equals + 1));
    }
  }
  ::clearenv();
  for (const auto& [name, value] : kept) ::setenv(name.c_str(), value.c_str(), 1);
  ::tzset();
}

namespace {

// The process that was started by hand: ends as the daemon's start does.
[[noreturn]] void wait_for_start(int pipe) {
  std::string said;
  for (;;) {
    char buffer[512];
    const ssize_t got = ::read(pipe, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(buffer, static_cast<std::size_t>(got));
  }
  if (said == "ready\n") ::_exit(0);
  if (said.empty()) said = "the server ended before it was ready, see its error log\n";
  std::fprintf(stderr, "corehttpd: [emerg] %s", said.c_str());
  ::_exit(1);
}

}  // namespace

Result<int> daemonize() {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return std::unexpected(error_from_errno(errno, "pipe2()"));
  const pid_t child = ::fork();
  if (child < 0) {
    const int fork_errno = errno;
    ::close(pipe[0]);
    ::close(pipe[1]);
    return std::unexpected(error_from_errno(fork_errno, "fork()"));
  }
  if (child > 0) {
    ::close(pipe[1]);
    wait_for_start(pipe[0]);
  }
  ::close(pipe[0]);
  if (::setsid() < 0) return std::unexpected(error_from_errno(errno, "setsid()"));
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) return std::unexpected(error_from_errno(errno, "open(/dev/null)"));
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::dup2(null, 2);
  if (null > 2) ::close(null);
  return pipe[1];
}

Result<> write_pid_file(const std::string& path) {
  // Written aside and renamed: whoever reads it never sees half a number, and a link in a folder of
  // others is replaced, not followed.
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "open()"));
  char text[24];
  const int length = std::snprintf(text, sizeof(text), "%ld\n", static_cast<long>(::getpid()));
  const bool written = ::write(fd, text, static_cast<std::size_t>(length)) == length;
  const int write_errno = errno;
  ::close(fd);
  if (!written) {
    ::unlink(temporary.c_str());
    return std::unexpected(error_from_errno(write_errno, "write()"));
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return std::unexpected(error_from_errno(errno, "rename()"));
  return {};
}

Result<pid_t> read_pid_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::unexpected(error_from_errno(errno, "open()"));
  long pid = 0;
  const int fields = std::fscanf(file, "%ld", &pid);
  std::fclose(file);
  if (fields != 1 || pid <= 0) return fail(Code::kMalformed, "reading the pid file");
  return static_cast<pid_t>(pid);
}

void open_standard_descriptors() {
  for (;;) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd < 0) return;
    if (fd > 2) {
      ::close(fd);
      return;
    }
  }
}

}  // namespace corehttpd::server
