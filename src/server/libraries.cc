#include "server/libraries.h"

#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

namespace corehttpd::server {

// From the map of the process: its device and inode tell whether the file has been replaced.
std::vector<LoadedLibrary> loaded_libraries() {
  std::vector<LoadedLibrary> out;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return out;
  char line[PATH_MAX + 128];
  while (std::fgets(line, sizeof(line), maps) != nullptr) {
    unsigned int major_number = 0, minor_number = 0;
    unsigned long inode = 0;
    char path[PATH_MAX] = {};
    if (std::sscanf(line, "%*s %*s %*s %x:%x %lu %4095[^\n]", &major_number, &minor_number, &inode,
                    path) != 4 ||
        std::strstr(path, ".so") == nullptr)
      continue;
    std::string name(path);
    constexpr std::string_view kDeleted = " (deleted)";
    bool replaced = name.ends_with(kDeleted);
    if (replaced) name.resize(name.size() - kDeleted.size());
    struct stat now {};
    if (!replaced) {
      // An overlay's map tells another device than stat(2), so the inode alone decides.
      replaced = ::stat(name.c_str(), &now) == 0 && now.st_ino != inode;
    }
    const bool known =
        std::any_of(out.begin(), out.end(), [&](const LoadedLibrary& l) { return l.path == name; });
    if (!known) out.push_back({name, replaced});
  }
  std::fclose(maps);
  return out;
}

Libraries::Libraries() {
  for (LoadedLibrary& library : loaded_libraries()) mapped_.push_back({std::move(library.path)});
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
  const auto [now, then] = std::mismatch(seen_.begin(), seen_.end(), mapped_.begin(), equal);
  if (now == seen_.end()) return nullptr;
  reported_ = seen_;
  return &then->path;
}

}  // namespace corehttpd::server
