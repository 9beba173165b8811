#include "tls/watched_files.h"

#include <sys/stat.h>

#include <climits>
#include <cstdlib>
#include <utility>

namespace corehttpd::tls {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

}  // namespace

FileMark look_at(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return {};
  // What is written to a FIFO (passphrases) is there once, and changes its times.
  if (S_ISFIFO(about.st_mode)) return {about.st_dev, about.st_ino, 0, 0, 0};
  return {about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size),
          nanoseconds(about.st_mtim), nanoseconds(about.st_ctim)};
}

void WatchedFiles::add(std::string_view path) { files_.push_back({std::string(path), {}, {}}); }

void WatchedFiles::note() {
  for (File& file : files_) file.read = file.seen = look_at(file.path);
  problem_.clear();
}

WatchedFiles::State WatchedFiles::look(Milliseconds now_ms) {
  bool same = true;
  for (File& file : files_) {
    const FileMark now = look_at(file.path);
    if (now != file.seen) {
      file.seen = now;
      changed_ms_ = now_ms;
    }
    same &= file.seen == file.read;
  }
  if (!same) return now_ms - changed_ms_ >= kQuiet ? State::kChanged : State::kUnsettled;
  if (problem_.empty()) return State::kSame;
  return now_ms - changed_ms_ >= kPatience ? State::kFailed : State::kUnsettled;
}

std::string WatchedFiles::take_problem() { return std::exchange(problem_, {}); }

void WatchedFiles::list_folders(std::vector<std::string>& into) const {
  for (const File& file : files_) {
    into.push_back(folder_of(file.path));
    char real[PATH_MAX];
    if (::realpath(file.path.c_str(), real) != nullptr) into.push_back(folder_of(real));
  }
}

}  // namespace corehttpd::tls
