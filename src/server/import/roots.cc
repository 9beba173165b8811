#include "server/import/roots.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <vector>

namespace corehttpd::server::importer {
namespace {

// What Debian's package brings and others do not.
constexpr const char* kDebianNames[] = {"sites-available", "sites-enabled", "modules-enabled",
                                        "snippets"};

std::optional<std::string> below(std::string_view path, std::string_view root) {
  if (path.size() <= root.size() + 1 || !path.starts_with(root) || path[root.size()] != '/')
    return std::nullopt;
  return std::string(path.substr(root.size() + 1));
}

}  // namespace

std::string normal_path(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    at = slash + 1;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  std::string out;
  for (std::string_view part : parts) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

bool has_wildcard(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

std::optional<std::string> canonical(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> found(::realpath(path.c_str(), nullptr), std::free);
  if (found == nullptr) return std::nullopt;
  return std::string(found.get());
}

Roots::Roots(std::string from, std::string to, std::string prefix)
    : shown_(normal_path(from)), to_(normal_path(to)), prefix_(std::move(prefix)) {
  from_ = canonical(shown_).value_or(shown_);
  source_layout_ = from_.ends_with("/conf");
  if (prefix_.empty()) {
    // Built from source: PREFIX/conf. nginx.org's packages use the directory itself, Debian's
    // /usr/share/nginx.
    if (source_layout_) {
      prefix_ = from_.substr(0, from_.size() - 5);
    } else {
      const bool debian = std::any_of(std::begin(kDebianNames), std::end(kDebianNames),
                                      [&](const std::string& name) {
                                        return ::access((from_ + "/" + name).c_str(), F_OK) == 0;
                                      });
      prefix_ = debian ? "/usr/share/nginx" : from_;
    }
  }
  prefix_ = normal_path(prefix_);
}

std::size_t Roots::root_length(std::string_view path) const {
  for (const std::string_view root : {std::string_view(shown_), std::string_view(from_)}) {
    if (below(path, root)) return root.size();
  }
  return kNginxDirectory.size();
}

bool Roots::holds(std::string_view relative) const {
  const std::string_view literal = relative.substr(0, relative.find_first_of("*?[$"));
  const bool whole = literal.size() == relative.size();
  const std::size_t slash = literal.rfind('/');
  const std::string directory(slash == std::string_view::npos ? "" : literal.substr(0, slash));
  struct stat status = {};
  return ::lstat((from_ + "/" + (whole ? std::string(relative) : directory)).c_str(), &status) == 0;
}

std::optional<std::string> Roots::relative(std::string_view path) const {
  if (!path.starts_with('/')) return std::nullopt;
  const std::string plain = normal_path(path);
  if (auto found = below(plain, from_)) return found;
  if (auto found = below(plain, shown_)) return found;
  if (auto found = below(plain, kNginxDirectory); found && holds(*found)) return found;
  return std::nullopt;
}

std::optional<std::string> Roots::resolve(const std::string& path) const {
  constexpr int kLinksMax = 40;  // As the kernel has it.
  std::string at = path;
  for (int i = 0; i < kLinksMax; ++i) {
    char buffer[PATH_MAX];
    const ssize_t length = ::readlink(at.c_str(), buffer, sizeof(buffer));
    if (length <= 0 || buffer[0] != '/') break;
    const auto inside = relative(std::string_view(buffer, static_cast<std::size_t>(length)));
    if (!inside || !holds(*inside)) break;
    at = from_ + "/" + *inside;
  }
  return canonical(at);
}

std::string Roots::target(std::string_view relative) const {
  if (relative == "nginx.conf") relative = kMainFile;
  return to_ + "/" + std::string(relative);
}

}  // namespace corehttpd::server::importer
