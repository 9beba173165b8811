// Opening a log file by its name, by a process that has more rights than those who may write to the
// folders on the way.
#pragma once

#include <sys/types.h>

#include <string>

#include "corehttpd/base/error.h"

namespace corehttpd::io {

struct AppendFile {
  int fd = -1;
  bool created = false;
};

// Opens an absolute path for appending, close-on-exec, and creates the file with mode if there is
// none. Blocks as long as the file system does, but not for a FIFO's reader (ENXIO). Walks the path
// folder by folder. In one that others than root and ourselves may write to
//   - a symbolic link is not followed (in a sticky one, as /tmp, only a link of root or ourselves),
//   - a file that has further hard links is refused, for it may be anybody's,
//   - a FIFO, a device or the like is refused unless it is root's or ours.
// kForbidden with the reason as context for these; else the errno in detail, context "open()".
// /dev/stdout and /dev/stderr are duplicates of our own descriptors 1 and 2.
Result<AppendFile> open_append(const std::string& path, mode_t mode);

// "/dev/stdout" and its other names: opening it again later may find another file.
bool is_standard_stream(std::string_view path);

}  // namespace corehttpd::io
