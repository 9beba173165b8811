// Reading a small file as a whole without waiting for the disk.
#pragma once

#include <sys/stat.h>

#include "corehttpd/base/block.h"

namespace corehttpd::assets {

// The first before.st_size bytes of fd (> 0), if all of them are in the page cache and the file was
// not changed while they were read (before is fstat's answer from when it was opened). Empty
// otherwise: the caller then serves the descriptor.
BlockRef read_small(int fd, const struct stat& before);

}  // namespace corehttpd::assets
