#include "assets/open_path.h"

#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace corehttpd::assets {
namespace {

int open_at(int directory, const char* path, int flags, std::uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = resolve;
  long fd;
  do {
    fd = ::syscall(SYS_openat2, directory, path, &how, sizeof how);
  } while (fd < 0 && errno == EINTR);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Walks a path component by component, so that each link can be compared with what it leads to.
// Every step starts from a descriptor: whoever renames a part of the path meanwhile changes what is
// found, but never what was compared.
class OwnerWalk {
 public:
  // A place in the tree, and how it was reached: opening by name in parent again, without following
  // links, yields a descriptor that can be read.
  struct Place {
    Descriptor here;    // O_PATH.
    Descriptor parent;  // None for "/".
    std::string name;
  };

  // 0, or an errno.
  int walk(Descriptor start, std::string_view path, Place& place) {
    place.here = std::move(start);
    while (true) {
      while (path.starts_with('/')) path.remove_prefix(1);
      if (path.empty()) return 0;
      const std::string name(path.substr(0, path.find('/')));
      path.remove_prefix(name.size());
      if (const int error = step(place, name)) return error;
      // A slash after a name asks for a directory.
      if (path.empty()) return 0;
      struct stat status;
      if (::fstat(place.here.get(), &status) != 0) return errno;
      if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    }
  }

 private:
  // Linux's own limit (path_resolution(7)).
  static constexpr int kLinksMax = 40;

  int step(Place& place, const std::string& name) {
    const int fd = open_at(place.here.get(), name.c_str(), O_PATH | O_NOFOLLOW, 0);
    if (fd < 0) return -fd;
    Descriptor found(fd);
    struct stat status;
    if (::fstat(fd, &status) != 0) return errno;
    if (!S_ISLNK(status.st_mode)) {
      place.parent = std::move(place.here);
      place.here = std::move(found);
      place.name = name;
      return 0;
    }
    return follow(place, fd, status.st_uid);
  }

  int follow(Place& place, int link, uid_t owner) {
    if (++links_ > kLinksMax) return ELOOP;
    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(link, "", target, sizeof target);
    if (length < 0) return errno;
    if (length == 0 || static_cast<std::size_t>(length) == sizeof target) return ENAMETOOLONG;
    const bool absolute = target[0] == '/';
    const int start = absolute ? open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0)
                               : open_at(place.here.get(), ".", O_PATH | O_DIRECTORY, 0);
    if (start < 0) return -start;
    Place reached;
    const int error = walk(Descriptor(start), {target, static_cast<std::size_t>(length)}, reached);
    if (error != 0) return error;
    struct stat status;
    if (::fstat(reached.here.get(), &status) != 0) return errno;
    if (status.st_uid != owner) return ELOOP;
    place = std::move(reached);
    return 0;
  }

  int links_ = 0;
};

// The O_PATH descriptor of a place says what it is; reading takes another one of the same file.
int reopen(OwnerWalk::Place& place, int flags) {
  if ((flags & O_PATH) != 0) return place.here.release();
  struct stat wanted, got;
  if (::fstat(place.here.get(), &wanted) != 0) return -errno;
  if (S_ISDIR(wanted.st_mode)) return open_at(place.here.get(), ".", flags, 0);
  Descriptor fd(open_at(place.parent.get(), place.name.c_str(), flags | O_NOFOLLOW, 0));
  if (fd.get() < 0) return fd.get();
  if (::fstat(fd.get(), &got) != 0) return -errno;
  // Replaced within these microseconds by something that nobody has compared.
  if (got.st_dev != wanted.st_dev || got.st_ino != wanted.st_ino) return -ELOOP;
  return fd.release();
}

// The part that is not checked, opened. path is left with the rest, relative.
int open_trusted(std::string_view& path, std::uint32_t trusted_bytes) {
  const std::string_view start = path.starts_with('/') ? "/" : ".";
  const std::string trusted(trusted_bytes == 0 ? start : path.substr(0, trusted_bytes));
  path.remove_prefix(trusted_bytes);
  while (path.starts_with('/')) path.remove_prefix(1);
  return open_at(AT_FDCWD, trusted.c_str(), O_PATH | O_DIRECTORY, 0);
}

}  // namespace

int open_path(std::string_view path, LinkRule links, int flags) {
  // Where the trusted part is all of it, it may as well be a file.
  if (links.links == Links::kFollow || links.trusted_bytes >= path.size()) {
    int fd;
    do {
      fd = ::open(path.data(), flags | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
  }
  Descriptor start(open_trusted(path, links.trusted_bytes));
  if (start.get() < 0) return start.get();
  if (path.empty()) {  // "from" with slashes behind it.
    return (flags & O_PATH) != 0 ? start.release() : open_at(start.get(), ".", flags, 0);
  }
  if (links.links == Links::kNever) {
    return open_at(start.get(), path.data(), flags, RESOLVE_NO_SYMLINKS);
  }
  OwnerWalk::Place place;
  const int error = OwnerWalk().walk(std::move(start), path, place);
  return error != 0 ? -error : reopen(place, flags);
}

int stat_path(std::string_view path, LinkRule links, struct stat& status) {
  if (links.links == Links::kFollow) return ::stat(path.data(), &status) == 0 ? 0 : errno;
  const Descriptor fd(open_path(path, links, O_PATH));
  if (fd.get() < 0) return -fd.get();
  return ::fstat(fd.get(), &status) == 0 ? 0 : errno;
}

int open_cached(std::string_view path) {
  return open_at(AT_FDCWD, path.data(), O_PATH, RESOLVE_CACHED);
}

std::uint64_t nearest_device(std::string_view path) {
  std::string part(path);
  while (!part.empty()) {
    const Descriptor fd(open_cached(part));
    struct statx status;
    if (fd.get() >= 0 &&
        ::statx(fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0) {
      return ::gnu_dev_makedev(status.stx_dev_major, status.stx_dev_minor);
    }
    const std::size_t slash = part.rfind('/');
    if (slash == std::string::npos || part == "/") break;
    part.resize(slash == 0 ? 1 : slash);
  }
  return 0;
}

bool is_local(int fd) {
  constexpr std::uint32_t kLocal[] = {
      EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC,           BTRFS_SUPER_MAGIC,    TMPFS_MAGIC,
      RAMFS_MAGIC,          OVERLAYFS_SUPER_MAGIC,     F2FS_SUPER_MAGIC,     SQUASHFS_MAGIC,
      EROFS_SUPER_MAGIC_V1, ISOFS_SUPER_MAGIC,         MSDOS_SUPER_MAGIC,    EXFAT_SUPER_MAGIC,
      REISERFS_SUPER_MAGIC, UDF_SUPER_MAGIC,           PROC_SUPER_MAGIC,     SYSFS_MAGIC,
      0x2fc12fc1 /* ZFS */, 0xca451a4e /* bcachefs */, 0x3153464a /* JFS */, 0x7366746e /* NTFS */,
  };
  struct statfs status;
  if (::fstatfs(fd, &status) != 0) return false;
  for (const std::uint32_t magic : kLocal) {
    if (static_cast<std::uint32_t>(status.f_type) == magic) return true;
  }
  return false;
}

}  // namespace corehttpd::assets
