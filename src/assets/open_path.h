// Opening a path under the rules of disable_symlinks. Safe in threads.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <string_view>

#include "corehttpd/assets/settings.h"

namespace corehttpd::assets {

// O_NONBLOCK: should the name have become a FIFO meanwhile, opening it must not wait for a writer.
inline constexpr int kOpenToRead = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

// A descriptor, or -errno. path is absolute and NUL-terminated past its end. A refused link is
// -ELOOP. What is checked is what is opened: nobody can exchange a part of the path in between.
int open_path(std::string_view path, LinkRule links, int flags);
// 0, or the errno.
int stat_path(std::string_view path, LinkRule links, struct stat& status);
// O_PATH if all of the path is in the kernel's caches; -EAGAIN (or another error) if not.
int open_cached(std::string_view path);
// The number of the file system on which path lies, or would: of its longest part that the kernel
// has in its caches. Never waits.
std::uint64_t nearest_device(std::string_view path);
// Does the descriptor's file system answer by itself, without asking a server or another process?
bool is_local(int fd);

}  // namespace corehttpd::assets
