#include "http/temp_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace corehttpd::http {
namespace {

std::unexpected<Error> system_error(int errno_value, const char* context) {
  return fail(Code::kSystem, context, errno_value);
}

}  // namespace

Result<FileRef> open_named_file(Arena& arena, std::string_view directory, std::string_view& path) {
  const std::string_view name =
      arena.concat(directory, directory.ends_with('/') ? "" : "/", "body-XXXXXX");
  // The arena's copy is ours to write to; mkostemp(3) puts the letters in.
  const int fd = ::mkostemp(const_cast<char*>(name.data()), O_CLOEXEC);
  if (fd < 0) return system_error(errno, "mkostemp()");
  path = name;
  return FileRef::adopt(fd);
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
  auto file = open_named_file(arena, directory, path);
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
