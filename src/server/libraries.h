// The shared libraries that this process runs on, and whether their files have been replaced since:
// a library's fix arrives with `apt upgrade`, and only a new process has it (design.md §10).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"

namespace corehttpd::server {

// A library that this process has mapped, by the file that it really is
// ("…/libnghttp2.so.14.24.1"). replaced: the file is no longer the one on disk, an update waits.
struct LoadedLibrary {
  std::string path;
  bool replaced = false;
  std::string_view name() const { return std::string_view(path).substr(path.rfind('/') + 1); }
};
std::vector<LoadedLibrary> loaded_libraries();

class Libraries {
 public:
  // Remembers the files as they are now.
  Libraries();
  // The path of a library that is gone or of which another file has taken the place, when that and
  // everything else has stayed the same from one look to the next (a package manager is through
  // with it); nullptr otherwise. Each state of the files is reported once. Looks every kInterval at
  // most.
  const std::string* replaced(Milliseconds now_ms);

 private:
  static constexpr Milliseconds kInterval = 3'000;
  struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };
  // All of them as they are now; one that is gone (a new version may have another name) is zeros.
  std::vector<File> look() const;

  std::vector<File> mapped_;
  std::vector<File> seen_, reported_;
  Milliseconds looked_ms_ = 0;
};

}  // namespace corehttpd::server
