#include "server/libraries.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

namespace corehttpd::server {
namespace {

// "address perms offset device inode path": the path of a mapping that code runs from, if it is a
// shared library's.
std::string_view library_of(std::string_view line) {
  const std::size_t slash = line.find('/');
  const std::size_t mode = line.find(' ');
  if (slash == std::string_view::npos || mode > slash) return {};
  if (line.substr(mode + 1, 4).find('x') == std::string_view::npos) return {};
  const std::string_view path = line.substr(slash);
  return path.find(".so") != std::string_view::npos ? path : std::string_view();
}

}  // namespace

Libraries::Libraries() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::string_view path = library_of(line);
    const auto is_it = [&](const File& file) { return file.path == path; };
    if (path.empty() || path.ends_with(" (deleted)")) continue;
    if (std::none_of(mapped_.begin(), mapped_.end(), is_it)) mapped_.push_back({std::string(path)});
  }
  mapped_ = look();
}

std::vector<Libraries::File> Libraries::look() const {
  std::vector<File> files = mapped_;
  for (File& file : files) {
    struct stat about {};
    const bool there = ::stat(file.path.c_str(), &about) == 0;
    file.device = there ? about.st_dev : 0;
    file.inode = there ? about.st_ino : 0;
  }
  return files;
}

const std::string* Libraries::replaced(Milliseconds now_ms) {
  if (now_ms - looked_ms_ < kInterval) return nullptr;
  looked_ms_ = now_ms;
  const auto equal = [](const File& a, const File& b) {
    return a.device == b.device && a.inode == b.inode;
  };
  const auto same = [&](const std::vector<File>& a, const std::vector<File>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
  };
  const std::vector<File> before = std::exchange(seen_, look());
  if (!same(before, seen_) || same(seen_, reported_)) return nullptr;
  // One that is missing comes back, or has gone with a version of ours that is not to be followed.
  const bool complete =
      std::none_of(seen_.begin(), seen_.end(), [](const File& file) { return file.inode == 0; });
  const auto [now, then] = std::mismatch(seen_.begin(), seen_.end(), mapped_.begin(), equal);
  if (!complete || now == seen_.end()) return nullptr;
  reported_ = seen_;
  return &then->path;
}

}  // namespace corehttpd::server
