// Temporary files of request bodies.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/error.h"
#include "corehttpd/base/file_handle.h"

namespace corehttpd::http {

// A file without a name in directory (absolute, NUL-terminated), which vanishes with its last
// descriptor, even if the worker dies.
Result<FileRef> open_nameless_file(std::string_view directory);
// A file with a name of its own, mode 0600; path is set to it, in the arena.
Result<FileRef> open_named_file(Arena& arena, std::string_view directory, std::string_view& path);
// Writes all of bytes at the end, whatever the kernel takes at a time.
Result<> append(int fd, std::span<const std::byte> bytes);
// Fills out from offset; the file must have that much.
Result<> read_exactly(int fd, std::span<std::byte> out, std::uint64_t offset);

}  // namespace corehttpd::http
