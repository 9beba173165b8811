// The shared libraries that this process runs on, and whether their files have been replaced since:
// a library's fix arrives with `apt upgrade`, and only a new process has it (design.md §10).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"

namespace corehttpd::server {

class Libraries {
 public:
  // Remembers what is mapped executable into this process, its program left out.
  Libraries();
  // The path of a library of which another file has taken the place, when that and everything else
  // has stayed the same from one look to the next (a package manager is through with it); nullptr
  // otherwise. Each state of the files is reported once. Looks every kInterval at most.
  const std::string* replaced(Milliseconds now_ms);

 private:
  static constexpr Milliseconds kInterval = 3'000;
  struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };
  // All of them as they are now; a missing one is zeros.
  std::vector<File> look() const;

  std::vector<File> mapped_;
  std::vector<File> seen_, reported_;
  Milliseconds looked_ms_ = 0;
};

}  // namespace corehttpd::server
