// Temporary files of request bodies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/error.h"
#include "corehttpd/base/file_handle.h"

namespace corehttpd::http {

// A file without a name in directory (absolute, NUL-terminated), which vanishes with its last
// descriptor, even if the worker dies.
Result<FileRef> open_nameless_file(std::string_view directory);
// How many digits of a file's number name each level of subdirectories; nginx's levels.
using TempLevels = std::array<std::uint8_t, 3>;
// A file with a name of its own, mode 0600: a number of ten digits, below subdirectories that its
// last digits name and that are made as needed. path is set to it, in the arena.
Result<FileRef> open_named_file(Arena& arena, std::string_view directory, const TempLevels& levels,
                                std::string_view& path);
// Writes all of bytes at the end, whatever the kernel takes at a time.
Result<> append(int fd, std::span<const std::byte> bytes);
// Fills out from offset; the file must have that much.
Result<> read_exactly(int fd, std::span<std::byte> out, std::uint64_t offset);

}  // namespace corehttpd::http
