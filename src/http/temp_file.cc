#include "http/temp_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

namespace corehttpd::http {
namespace {

std::unexpected<Error> system_error(int errno_value, const char* context) {
  return fail(Code::kSystem, context, errno_value);
}

int create(std::string_view path) {
  int fd = -1;
  do {
    fd = ::open(path.data(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// "7/46/0029172467" with levels 1 and 2.
std::string numbered_name(const TempLevels& levels) {
  constexpr std::uint64_t kNumbers = 10'000'000'000;
  std::uint64_t random = 0;
  // Only to be unlike others: what is already taken is tried again.
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = static_cast<std::uint64_t>(::clock()) * 2654435761u;
  const std::string number = fmt::format("{:010}", random % kNumbers);
  std::string name;
  std::size_t end = number.size();
  for (const std::uint8_t digits : levels) {
    if (digits == 0) break;
    end -= digits;
    name.append(number, end, digits).push_back('/');
  }
  return name + number;
}

// The subdirectories of name below directory; those that are there already are fine.
bool make_levels(std::string_view directory, std::string_view name) {
  for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/', slash + 1)) {
    const std::string level = fmt::format("{}/{}", directory, name.substr(0, slash));
    if (::mkdir(level.c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return name.find('/') != std::string_view::npos;
}

}  // namespace

Result<FileRef> open_named_file(Arena& arena, std::string_view directory, const TempLevels& levels,
                                std::string_view& path) {
  constexpr int kTries = 100;  // Among ten thousand million numbers one is soon free.
  if (directory.ends_with('/')) directory.remove_suffix(1);
  for (int tries = 0; tries < kTries; ++tries) {
    const std::string name = numbered_name(levels);
    const std::string_view whole = arena.concat(directory, "/", name);
    int fd = create(whole);
    if (fd < 0 && errno == ENOENT && make_levels(directory, name)) fd = create(whole);
    if (fd >= 0) {
      path = whole;
      return FileRef::adopt(fd);
    }
    if (errno != EEXIST) break;
  }
  return system_error(errno, "open()");
}

Result<FileRef> open_nameless_file(std::string_view directory) {
  int fd = -1;
  do {
    fd = ::open(directory.data(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd >= 0) return FileRef::adopt(fd);
  // Some file systems (overlayfs of old, NFS) have no O_TMPFILE, and say so in various ways.
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
    return system_error(errno, "open()");
  Arena arena;
  std::string_view path;
  auto file = open_named_file(arena, directory, {}, path);
  if (file) ::unlink(path.data());
  return file;
}

Result<> append(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return system_error(written < 0 ? errno : ENOSPC, "write()");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<> read_exactly(int fd, std::span<std::byte> out, std::uint64_t offset) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "pread()");
    if (got == 0) return system_error(EIO, "pread() past the end");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace corehttpd::http
