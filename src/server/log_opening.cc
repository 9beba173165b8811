#include "server/log_opening.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace corehttpd::server {
namespace {

constexpr mode_t kLogMode = 0640;

gid_t log_group(const Identity& owner) {
  const group* adm = ::getgrnam("adm");
  return adm != nullptr ? adm->gr_gid : owner.group;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// An operator's nginx.conf may name /var/log/nginx on a machine that never had nginx.
void make_log_directory(const std::string& directory, const Identity& owner) {
  constexpr std::string_view kLogs = "/var/log/";
  if (!directory.starts_with(kLogs) || directory.find('/', kLogs.size()) != std::string::npos)
    return;
  if (::mkdir(directory.c_str(), 0750) == 0 && owner.change) {
    [[maybe_unused]] const int changed = ::chown(directory.c_str(), owner.user, log_group(owner));
  }
}

}  // namespace

Result<int> open_log(const std::string& path, const Identity& owner) {
  const std::string directory = directory_of(path);
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0 && errno == ENOENT)
    make_log_directory(directory, owner);
  int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  // A worker's user could plant a link in its own log directory and have root append anywhere.
  if (::stat(directory.c_str(), &info) == 0 && ::geteuid() == 0 && info.st_uid != 0 && owner.change)
    flags |= O_NOFOLLOW;
  struct stat before {};
  const bool existed = ::lstat(path.c_str(), &before) == 0;
  const int fd = ::open(path.c_str(), flags, kLogMode);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "open()"));
  // O_NONBLOCK was only for the open itself: a FIFO without a reader must not hang the master.
  ::fcntl(fd, F_SETFL, O_APPEND);
  if (!existed && owner.change) {
    [[maybe_unused]] const int changed = ::fchown(fd, owner.user, log_group(owner));
    ::fchmod(fd, kLogMode);  // Whatever the umask made of it.
  }
  return fd;
}

Result<> open_logs(http::LogFiles& files, const Identity& owner, std::string& failed) {
  for (http::LogFile* file : files.files()) {
    auto fd = open_log(std::string(file->path), owner);
    if (!fd) {
      failed = file->path;
      close_logs(files);
      return std::unexpected(fd.error());
    }
    file->fd = *fd;
  }
  files.publish();
  return {};
}

void close_logs(http::LogFiles& files) {
  for (http::LogFile* file : files.files()) {
    if (file->fd > 2) ::close(file->fd);
    file->fd = -1;
  }
}

}  // namespace corehttpd::server
