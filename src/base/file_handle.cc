#include "corehttpd/base/file_handle.h"

#include <unistd.h>

namespace corehttpd {

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace corehttpd
