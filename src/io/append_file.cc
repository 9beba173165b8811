#include "corehttpd/io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>

namespace corehttpd::io {
namespace {

constexpr int kLinksMax = 40;  // As the kernel counts.
constexpr int kOpenTries = 4;  // A file that others remove and make meanwhile.

std::unexpected<Error> failed(int errno_value) {
  return std::unexpected(error_from_errno(errno_value, "open()"));
}
std::unexpected<Error> refused(const char* why) { return fail(Code::kForbidden, why, ELOOP); }

bool trusted(uid_t user) { return user == 0 || user == ::geteuid(); }

// 1 or 2, or -1.
int standard_stream(std::string_view path) {
  for (int fd : {1, 2}) {
    const std::string number = std::to_string(fd);
    if (path == (fd == 1 ? "/dev/stdout" : "/dev/stderr") || path == "/dev/fd/" + number ||
        path == "/proc/self/fd/" + number)
      return fd;
  }
  return -1;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(-1); }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class Walk {
 public:
  Walk(const std::string& path, mode_t mode) : rest_(path), mode_(mode), directory_(-1) {}
  Result<AppendFile> run();

 private:
  // Who may change the entries of the folder we are in.
  enum class Risk { kNone, kSticky, kOpen };

  Result<> enter(int fd);
  Result<> step(const std::string& name);
  Result<> follow(const std::string& name, uid_t owner);
  Result<AppendFile> open_last(const std::string& name, bool& link);
  Result<> check(int fd) const;
  std::string next_name();

  std::string rest_;
  mode_t mode_;
  Descriptor directory_;
  Risk risk_ = Risk::kNone;
  int links_ = 0;
};

Result<> Walk::enter(int fd) {
  if (fd < 0) return failed(errno);
  directory_.reset(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failed(errno);
  if (!S_ISDIR(info.st_mode)) return failed(ENOTDIR);
  const bool group = (info.st_mode & S_IWGRP) != 0 && info.st_gid != 0;
  const bool shared = group || (info.st_mode & S_IWOTH) != 0;
  risk_ = !trusted(info.st_uid)                                ? Risk::kOpen
          : !shared                                            ? Risk::kNone
          : (info.st_mode & static_cast<mode_t>(S_ISVTX)) != 0 ? Risk::kSticky
                                                               : Risk::kOpen;
  return {};
}

// The first name of rest_, taken off it.
std::string Walk::next_name() {
  const std::size_t begin = rest_.find_first_not_of('/');
  if (begin == std::string::npos) {
    rest_.clear();
    return {};
  }
  const std::size_t end = rest_.find('/', begin);
  std::string name = rest_.substr(begin, end == std::string::npos ? end : end - begin);
  rest_ = end == std::string::npos ? std::string() : rest_.substr(end);
  return name;
}

Result<AppendFile> Walk::run() {
  if (rest_.empty() || rest_.front() != '/') return failed(ENOENT);
  if (rest_.size() >= PATH_MAX) return failed(ENAMETOOLONG);
  if (rest_.back() == '/') return failed(EISDIR);
  CORE_TRY_VOID(enter(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
  for (;;) {
    const std::string name = next_name();
    if (name.empty()) return failed(EISDIR);
    if (!rest_.empty()) {
      CORE_TRY_VOID(step(name));
      continue;
    }
    bool link = false;
    auto opened = open_last(name, link);
    if (!link) return opened;
    struct stat info {};
    if (::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return failed(errno);
    CORE_TRY_VOID(follow(name, info.st_uid));
  }
}

Result<> Walk::step(const std::string& name) {
  Descriptor next(::openat(directory_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (next.get() < 0) return failed(errno);
  struct stat info {};
  if (::fstat(next.get(), &info) != 0) return failed(errno);
  if (S_ISLNK(info.st_mode)) return follow(name, info.st_uid);
  return enter(next.release());
}

Result<> Walk::follow(const std::string& name, uid_t owner) {
  if (risk_ == Risk::kOpen || (risk_ == Risk::kSticky && !trusted(owner)))
    return refused("a symbolic link in a folder that others may write to");
  if (++links_ > kLinksMax) return failed(ELOOP);
  char target[PATH_MAX];
  const ssize_t length = ::readlinkat(directory_.get(), name.c_str(), target, sizeof(target));
  if (length < 0) return failed(errno);
  if (length == 0 || static_cast<std::size_t>(length) == sizeof(target))
    return failed(ENAMETOOLONG);
  rest_ = std::string(target, static_cast<std::size_t>(length)) + rest_;
  if (rest_.size() >= PATH_MAX) return failed(ENAMETOOLONG);
  if (target[0] != '/') return {};
  return enter(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// link: it is one, nothing was opened.
Result<AppendFile> Walk::open_last(const std::string& name, bool& link) {
  // Non-blocking only for the open itself: a FIFO without a reader must not hang us.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW;
  for (int tries = 0; tries < kOpenTries; ++tries) {
    AppendFile file;
    file.fd = ::openat(directory_.get(), name.c_str(), kFlags | O_CREAT | O_EXCL, mode_);
    file.created = file.fd >= 0;
    if (file.fd < 0 && errno == EEXIST) file.fd = ::openat(directory_.get(), name.c_str(), kFlags);
    if (file.fd < 0 && errno == ENOENT && tries + 1 < kOpenTries) continue;
    if (file.fd < 0) {
      link = errno == ELOOP;
      return failed(errno);
    }
    Descriptor guard(file.fd);
    CORE_TRY_VOID(check(file.fd));
    ::fcntl(file.fd, F_SETFL, O_APPEND);
    guard.release();
    return file;
  }
  return failed(ENOENT);
}

Result<> Walk::check(int fd) const {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failed(errno);
  if (S_ISREG(info.st_mode)) {
    if (risk_ != Risk::kNone && info.st_nlink > 1)
      return refused("a file with several names in a folder that others may write to");
    return {};
  }
  if (S_ISBLK(info.st_mode)) return refused("a block device");
  if (risk_ != Risk::kNone && !trusted(info.st_uid))
    return refused("no regular file, in a folder that others may write to");
  return {};
}

}  // namespace

bool is_standard_stream(std::string_view path) { return standard_stream(path) >= 0; }

Result<AppendFile> open_append(const std::string& path, mode_t mode) {
  // Opening its name would fail for a socket, as the journal's is, and would ask for rights that
  // only whoever opened it had.
  if (const int stream = standard_stream(path); stream >= 0) {
    const int fd = ::fcntl(stream, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return failed(errno);
    return AppendFile{fd, false};
  }
  return Walk(path, mode).run();
}

}  // namespace corehttpd::io
