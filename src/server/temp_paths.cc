#include "server/temp_paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "corehttpd/http/temp_paths.h"

namespace corehttpd::server {
namespace {

Result<> make_directory(const std::string& path, const Identity& owner) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return std::unexpected(error_from_errno(errno, "mkdir()"));
  // As nginx does: the directory follows a changed "user", whoever had it before.
  struct stat info {};
  if (owner.change && ::stat(path.c_str(), &info) == 0 && info.st_uid != owner.user &&
      ::chown(path.c_str(), owner.user, owner.group) != 0) {
    return std::unexpected(error_from_errno(errno, "chown()"));
  }
  return {};
}

}  // namespace

Result<> make_temp_directories(const conf::Configuration& configuration, const Identity& owner,
                               std::string& failed) {
  if (const auto* paths = configuration.object<http::TempPaths>()) {
    for (std::string_view path : paths->paths()) {
      failed = path;
      CORE_TRY_VOID(make_directory(failed, owner));
    }
  }
  // The default is nobody's wish: if it can't be had (not root, not installed), requests that need
  // it fall back to memory and say so.
  const std::string fallback(http::kDefaultTempPath);
  if (::geteuid() == 0) {
    ::mkdir(fallback.substr(0, fallback.rfind('/')).c_str(), 0755);
    failed = fallback;
    CORE_TRY_VOID(make_directory(fallback, owner));
  }
  return {};
}

}  // namespace corehttpd::server
