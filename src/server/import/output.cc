#include "server/import/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

namespace corehttpd::server::importer {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kFileMax = 64 * 1024 * 1024;  // What is larger is no configuration.

std::string failure(std::string_view call, std::string_view path) {
  return fmt::format("{} \"{}\" failed ({}: {})", call, path, errno, std::strerror(errno));
}

bool holds_private_key(std::string_view text) {
  return text.find("PRIVATE KEY-----") != std::string_view::npos;
}

// Owner and times' like are kept as far as we may; only root can give files away.
void keep_owner(int fd, const struct stat& status) {
  if (::geteuid() == 0 && ::fchown(fd, status.st_uid, status.st_gid) != 0) return;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::vector<std::string> entries_of(const std::string& path) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void Output::note(Report& report, const std::string& relative, std::string message) {
  report.add({roots_.shown() + "/" + relative, 0, Weight::kDiffers, "", std::move(message), {}});
}

std::string Output::prepare() {
  struct stat status = {};
  if (::lstat(roots_.to().c_str(), &status) == 0) {
    if (!S_ISDIR(status.st_mode)) return fmt::format("\"{}\" is not a directory", roots_.to());
    if (!entries_of(roots_.to()).empty() && !force_) {
      return fmt::format("\"{}\" is not empty; --force writes into it all the same", roots_.to());
    }
    return {};
  }
  if (std::string message = make_parents(roots_.to()); !message.empty()) return message;
  return ::mkdir(roots_.to().c_str(), 0755) == 0 ? "" : failure("mkdir()", roots_.to());
}

std::string Output::make_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string parent = path.substr(0, at);
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return failure("mkdir()", parent);
  }
  return {};
}

std::string Output::copy(Report& report) { return copy_directory("", report, 0); }

std::string Output::copy_directory(const std::string& relative, Report& report, std::size_t depth) {
  const std::string from = relative.empty() ? roots_.from() : roots_.from() + "/" + relative;
  if (depth > kDepthMax) {
    note(report, relative, "is nested too deeply and was not copied");
    return {};
  }
  if (::access(from.c_str(), R_OK | X_OK) != 0) {
    note(report, relative, fmt::format("could not be copied: {}", std::strerror(errno)));
    return {};
  }
  for (const std::string& name : entries_of(from)) {
    const std::string inner = relative.empty() ? name : relative + "/" + name;
    if (std::string message = copy_entry(inner, report, depth); !message.empty()) return message;
  }
  return {};
}

std::string Output::copy_entry(const std::string& relative, Report& report, std::size_t depth) {
  struct stat status = {};
  if (::lstat((roots_.from() + "/" + relative).c_str(), &status) != 0) return {};  // Just removed.
  switch (status.st_mode & S_IFMT) {
    case S_IFDIR: {
      const std::string message = make_directory(roots_.target(relative), status);
      return message.empty() ? copy_directory(relative, report, depth + 1) : message;
    }
    case S_IFREG:
      return copy_file(relative, status, report);
    case S_IFLNK:
      return copy_link(relative, status);
    default:
      note(report, relative, "is neither a file nor a directory and was not copied");
      return {};
  }
}

std::string Output::make_directory(const std::string& path, const struct stat& status) {
  struct stat there = {};
  if (::lstat(path.c_str(), &there) == 0) {
    return S_ISDIR(there.st_mode) ? "" : fmt::format("\"{}\" is not a directory", path);
  }
  if (::mkdir(path.c_str(), 0700) != 0) return failure("mkdir()", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return failure("open()", path);
  keep_owner(fd, status);
  const int error = ::fchmod(fd, status.st_mode & 0777);
  ::close(fd);
  return error == 0 ? "" : failure("chmod()", path);
}

std::string Output::copy_file(const std::string& relative, const struct stat& status,
                              Report& report) {
  const std::string from = roots_.from() + "/" + relative;
  std::string text;
  if (!read_whole(from, kFileMax, text)) {
    note(report, relative,
         errno == EFBIG ? "is too large for a configuration and was not copied"
                        : fmt::format("could not be copied: {}", std::strerror(errno)));
    return {};
  }
  return write_file(roots_.target(relative), text, status);
}

std::string Output::copy_link(const std::string& relative, const struct stat& status) {
  const std::string from = roots_.from() + "/" + relative;
  char buffer[PATH_MAX];
  const ssize_t length = ::readlink(from.c_str(), buffer, sizeof(buffer));
  if (length < 0) return failure("readlink()", from);
  const std::string text(buffer, static_cast<std::size_t>(length));
  const std::string directory = from.substr(0, from.rfind('/'));
  const bool absolute = text.starts_with('/');
  const std::string leads_to = normal_path(absolute ? text : directory + "/" + text);
  const auto inside = roots_.relative(leads_to);
  std::string link = text;
  if (inside && roots_.holds(*inside)) {
    if (absolute || *inside == "nginx.conf") link = roots_.target(*inside);
  } else if (leads_to != roots_.from()) {
    link = leads_to;
  }
  const std::string path = roots_.target(relative);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failure("unlink()", path);
  if (::symlink(link.c_str(), path.c_str()) != 0) return failure("symlink()", path);
  if (::geteuid() == 0 && ::lchown(path.c_str(), status.st_uid, status.st_gid) != 0)
    return failure("chown()", path);
  // A file outside, should it have to be changed, takes the link's place.
  const auto real = roots_.resolve(from);
  const auto found = real ? tree_.files().find(*real) : tree_.files().end();
  if (found != tree_.files().end() && !is_inside(roots_, *found->second))
    links_[path] = found->second.get();
  return {};
}

std::string Output::write_file(const std::string& path, std::string_view text,
                               const struct stat& status) {
  struct stat there = {};
  if (::lstat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode))
    return fmt::format("\"{}\" is a directory", path);
  const std::string beside = path + ".import-part";
  ::unlink(beside.c_str());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return failure("open()", beside);
  keep_owner(fd, status);
  const mode_t mode = status.st_mode & (holds_private_key(text) ? 0600 : 0777);
  bool done = ::fchmod(fd, mode) == 0 && write_all(fd, text);
  if (::close(fd) != 0) done = false;
  done = done && ::rename(beside.c_str(), path.c_str()) == 0;
  if (done) return {};
  const std::string message = failure("writing", path);
  ::unlink(beside.c_str());
  return message;
}

std::string Output::put(const SourceFile* file, const std::string& path, Plan& plan) {
  std::string text = plan.edits(file).apply(file->text());
  if (file->has_byte_order_mark()) text.insert(0, "\xef\xbb\xbf");
  written_[path] = file;
  std::string& last = texts_[path];
  if (last == text && !text.empty()) return {};
  struct stat status = {};
  if (::stat(file->path().c_str(), &status) != 0) return failure("stat()", file->path());
  if (std::string message = make_parents(path); !message.empty()) return message;
  last = text;
  return write_file(path, text, status);
}

std::string Output::write(Plan& plan, const Mirrors& mirrors, Report& report) {
  for (const auto& [path, file] : tree_.files()) {
    const std::string relative =
        is_inside(roots_, *file) ? path.substr(roots_.from().size() + 1) : "";
    if (relative.empty()) continue;
    const std::string target = roots_.target(relative);
    const bool changed = !plan.edits(file.get()).empty() || written_.contains(target);
    written_[target] = file.get();
    if (!changed) continue;
    if (std::string message = put(file.get(), target, plan); !message.empty()) return message;
  }
  for (const auto& [path, file] : links_) {
    // nginx's package takes what is its own with it when it is removed.
    const bool packaged = file->path().starts_with("/usr/");
    if (plan.edits(file).empty() && !packaged) {
      report.add({file->shown(), 0, Weight::kInfo, "", "is outside the tree and stays there", {}});
      continue;
    }
    if (!packaged) {
      report.add({file->shown(), 0, Weight::kInfo, "",
                  fmt::format("is outside the tree and had to be changed: \"{}\" is a copy", path),
                  "edit the copy from now on"});
    }
    if (std::string message = put(file, path, plan); !message.empty()) return message;
  }
  for (const auto& [path, file] : mirrors) {
    if (std::string message = put(file, path, plan); !message.empty()) return message;
  }
  return {};
}

const SourceFile* Output::source_of(const std::string& path) {
  if (const auto found = written_.find(path); found != written_.end()) return found->second;
  const auto real = canonical(path);
  if (!real) return nullptr;
  const auto to = canonical(roots_.to());
  // Links within the new tree, and a new tree that was given by another name.
  if (to && real->starts_with(*to + "/")) {
    const auto found = written_.find(roots_.to() + real->substr(to->size()));
    return found == written_.end() ? nullptr : found->second;
  }
  const auto found = tree_.files().find(*real);
  return found == tree_.files().end() ? nullptr : found->second.get();
}

}  // namespace corehttpd::server::importer
