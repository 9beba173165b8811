// The part of TreeReader that touches files: include, its globs, its cycles and the main file.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "conf/tree_reader.h"

namespace corehttpd::conf {
namespace {

std::size_t shown_width(const Word& word) { return word.text.size() + (word.quoted ? 2 : 0); }

// path is NUL-terminated. The descriptor, or a negated errno value. Devices and pipes are none of
// configuration: reading one could hold the master up for ever.
int open_readable(std::string_view path) {
  int fd;
  do {
    fd = ::open(path.data(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return -errno;
  struct stat status = {};
  if (::fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)) {
    ::close(fd);
    return S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
  }
  return fd;
}

std::string system_failure(const char* call, std::string_view path, int errno_value) {
  return fmt::format("{} \"{}\" failed ({}: {})", call, path, errno_value, ::strerror(errno_value));
}

// Closes on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }

 private:
  int fd_;
};

}  // namespace

void TreeReader::read_main() {
  const std::string_view path = arena_.copy(options_.path);
  const int fd = open_readable(path);
  if (fd < 0) {
    error({}, system_failure("open()", path, -fd));
    broken_ = true;
    return;
  }
  const Descriptor guard(fd);
  struct stat status = {};
  ::fstat(fd, &status);
  std::string text;
  if (!load(fd, path, {}, text)) {
    broken_ = true;
    return;
  }
  files_.push_back({path, std::move(text)});
  const std::string copy = files_.back().text;  // files_ moves when includes are added.
  stack_.push_back({path, status.st_dev, status.st_ino});
  parse_file(path, copy, false, false, nodes_);
  stack_.pop_back();
}

void TreeReader::include(std::span<const Word> words, bool raw, Nodes& out) {
  if (words.size() != 2) {
    error(words[0].at, "invalid number of arguments in \"include\" directive",
          "syntax: include file | mask;", shown_width(words[0]));
    return;
  }
  const Word& word = words[1];
  std::string_view path = word.text;
  if (!path.starts_with('/')) {
    // From the directory of the main file, as in nginx, not of the file that includes.
    const std::size_t slash = options_.path.rfind('/');
    const std::string_view directory =
        std::string_view(options_.path).substr(0, slash == std::string::npos ? 0 : slash + 1);
    path = arena_.concat(directory, path);
  }
  if (path.find_first_of("*?[") != std::string_view::npos) {
    include_glob(path, word, raw, out);
  } else {
    include_file(path, word, raw, out);
  }
}

void TreeReader::include_glob(std::string_view pattern, const Word& word, bool raw, Nodes& out) {
  glob_t matches = {};
  const int status = ::glob(pattern.data(), GLOB_NOSORT, nullptr, &matches);
  if (status != 0 && status != GLOB_NOMATCH) {
    error(word.at, fmt::format("glob() \"{}\" failed", pattern), {}, shown_width(word));
  }
  if (status == 0) {
    std::vector<std::string_view> paths;
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
      paths.push_back(arena_.copy(matches.gl_pathv[i]));
    }
    // By bytes: the order of sites must not depend on the locale of whoever starts the server.
    std::sort(paths.begin(), paths.end());
    for (std::string_view path : paths) include_file(path, word, raw, out);
  }
  ::globfree(&matches);
}

void TreeReader::include_file(std::string_view path, const Word& word, bool raw, Nodes& out) {
  std::string key = std::string(path) + (raw ? "\nr" : "\n");
  if (const auto found = parsed_.find(key); found != parsed_.end()) {
    return append(found->second.nodes, found->second.weight, word, out);
  }
  if (stack_.size() >= kIncludeDepthMax || files_.size() >= kFilesMax) {
    broken_ = true;
    return error(word.at,
                 files_.size() >= kFilesMax ? "too many files" : "includes are too deeply nested",
                 {}, shown_width(word));
  }
  const int fd = open_include(path, word);
  if (fd < 0) {
    const bool relative = !word.text.starts_with('/');
    return error(word.at, system_failure("open()", path, -fd),
                 relative ? "relative names start at the directory of the main file" : "",
                 shown_width(word));
  }
  const Descriptor guard(fd);
  struct stat status = {};
  ::fstat(fd, &status);
  const Open file = {path, status.st_dev, status.st_ino};
  std::string text;
  if (!check_cycle(file, word) || !load(fd, path, word.at, text)) return;
  // Read once more only if it is a block's lines here and directives elsewhere.
  if (!parsed_.contains(std::string(path) + (raw ? "\n" : "\nr"))) files_.push_back({path, text});
  stack_.push_back(file);
  const std::size_t total_before = total_nodes_;
  Nodes nodes;
  if (!parse_file(path, text, raw, false, nodes)) broken_ = true;
  stack_.pop_back();
  const Parsed parsed = {keep(nodes), total_nodes_ - total_before};
  parsed_.emplace(std::move(key), parsed);
  append(parsed.nodes, 0, word, out);
}

bool TreeReader::check_cycle(const Open& file, const Word& word) {
  const auto same = [&](const Open& other) {
    return other.path == file.path || (other.inode == file.inode && other.device == file.device);
  };
  const auto found = std::find_if(stack_.begin(), stack_.end(), same);
  if (found == stack_.end()) return true;
  std::string chain;
  for (auto it = found; it != stack_.end(); ++it) chain.append(it->path).append(" includes ");
  error(word.at, fmt::format("\"{}\" includes itself", file.path), chain.append(file.path),
        shown_width(word));
  return false;
}

int TreeReader::open_include(std::string_view& path, const Word& word) {
  constexpr std::string_view kDebianDirectory = "/etc/nginx/";
  const int fd = open_readable(path);
  if (fd != -ENOENT || options_.fallback_directory.empty() || !path.starts_with(kDebianDirectory)) {
    return fd;
  }
  // Configurations name mime.types and fastcgi_params of a package that need not be installed here.
  const std::string_view name = path.substr(kDebianDirectory.size());
  if (name.empty() || name.find("..") != std::string_view::npos) return fd;
  const bool slash = options_.fallback_directory.ends_with('/');
  const std::string_view other = arena_.concat(options_.fallback_directory, slash ? "" : "/", name);
  const int other_fd = open_readable(other);
  if (other_fd < 0) return fd;
  diagnostics_.add(Severity::kNotice, word.at,
                   fmt::format("\"{}\" does not exist, \"{}\" is used instead", path, other), {},
                   shown_width(word));
  path = other;
  return other_fd;
}

bool TreeReader::load(int fd, std::string_view path, const Position& at, std::string& text) {
  char buffer[16 * 1024];
  for (;;) {
    const ssize_t count = ::read(fd, buffer, sizeof(buffer));
    if (count == 0) return true;
    if (count < 0) {
      if (errno == EINTR) continue;
      error(at, system_failure("read()", path, errno));
      return false;
    }
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kFileBytesMax) {
      error(at, fmt::format("\"{}\" is too large", path),
            fmt::format("a file may have up to {} bytes", kFileBytesMax));
      return false;
    }
  }
}

}  // namespace corehttpd::conf
