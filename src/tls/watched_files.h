// Files that something was made from, and whether they are still what they were. Files that belong
// together are written one after the other: what has changed is looked at again when it has been
// quiet for a moment, and a fault is worth a word only when nobody has mended it for a while.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"

namespace corehttpd::tls {

// What stat(2) says of a file, links followed; of none all is 0.
struct FileMark {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;
  bool operator==(const FileMark&) const = default;
};
FileMark look_at(const std::string& path);

class WatchedFiles {
 public:
  static constexpr Milliseconds kQuiet = 200;
  static constexpr Milliseconds kPatience = 3000;

  // path: absolute.
  void add(std::string_view path);
  // To be called before they are read: what is written meanwhile is a change.
  void note();

  enum class State : std::uint8_t {
    kSame,
    kUnsettled,  // Look again soon.
    kChanged,    // To be read again: note(), then read; set_problem() when they were no good.
    kFailed,     // They have been no good for kPatience: problem() is to be told, once.
  };
  State look(Milliseconds now_ms);
  void set_problem(std::string problem) { problem_ = std::move(problem); }
  std::string take_problem();

  // Folders where a change shows: of each file, and of what links lead to. Appended.
  void list_folders(std::vector<std::string>& into) const;

 private:
  struct File {
    std::string path;
    FileMark read, seen;
  };
  std::vector<File> files_;
  Milliseconds changed_ms_ = 0;
  std::string problem_;
};

}  // namespace corehttpd::tls
