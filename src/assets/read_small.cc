#include "assets/read_small.h"

#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/uio.h>

#include <cerrno>

#include "corehttpd/assets/file_lookup.h"

namespace corehttpd::assets {
namespace {

// Some file systems can't tell whether a read would wait. Those that live in memory never do.
bool lives_in_memory(int fd) {
  struct statfs status;
  if (::fstatfs(fd, &status) != 0) return false;
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

// Bytes read; fewer than length at the end of the file or of what is in the page cache.
std::size_t read_now(int fd, std::byte* into, std::size_t length) {
  std::size_t done = 0;
  int flags = RWF_NOWAIT;
  while (done < length) {
    iovec part{into + done, length - done};
    const ssize_t count = ::preadv2(fd, &part, 1, static_cast<off_t>(done), flags);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && errno == EOPNOTSUPP && flags != 0 && lives_in_memory(fd)) {
      flags = 0;
    } else {
      break;
    }
  }
  return done;
}

}  // namespace

BlockRef read_small(int fd, const struct stat& before) {
  const auto size = static_cast<std::size_t>(before.st_size);
  BlockRef block = Block::allocate(size);
  if (read_now(fd, block->data(), size) != size) return {};
  struct stat after;
  if (::fstat(fd, &after) != 0 || FileStamp::of(before) != FileStamp::of(after)) return {};
  return block;
}

}  // namespace corehttpd::assets
