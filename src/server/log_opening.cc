#include "server/log_opening.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "corehttpd/io/append_file.h"
#include "corehttpd/io/socket.h"
#include "server/environment.h"
#include "server/modules.h"

namespace corehttpd::server {
namespace {

constexpr mode_t kLogMode = 0640;

gid_t log_group(const Identity& owner) {
  const group* adm = ::getgrnam("adm");
  return adm != nullptr ? adm->gr_gid : owner.group;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// An operator's nginx.conf may name /var/log/nginx on a machine that never had nginx.
void make_log_directory(const std::string& directory, const Identity& owner) {
  constexpr std::string_view kLogs = "/var/log/";
  if (!directory.starts_with(kLogs) || directory.find('/', kLogs.size()) != std::string::npos)
    return;
  if (::mkdir(directory.c_str(), 0750) == 0 && owner.change) {
    [[maybe_unused]] const int changed = ::chown(directory.c_str(), owner.user, log_group(owner));
  }
}

}  // namespace

Result<int> open_log(const std::string& path, const Identity& owner) {
  const std::string directory = directory_of(path);
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0 && errno == ENOENT)
    make_log_directory(directory, owner);
  auto file = io::open_append(path, kLogMode);
  if (!file) return std::unexpected(file.error());
  if (file->created) {
    if (owner.change) {
      [[maybe_unused]] const int changed = ::fchown(file->fd, owner.user, log_group(owner));
    }
    ::fchmod(file->fd, kLogMode);  // Whatever the umask made of it.
  }
  return file->fd;
}

std::string describe_log_failure(std::string_view path, const Error& error) {
  const std::string_view context = error.context;
  if (context != "open()") return fmt::format("open() \"{}\" refused: it is {}", path, context);
  return describe_failure(fmt::format("open() \"{}\"", path), error);
}

namespace {

std::string resolve_syslog(const http::SyslogServer& server) {
  const Syslog::Parameters& names = server.syslog->parameters();
  const std::string_view text = names.server;
  auto address = io::parse_address(text, names.port);
  // May block, as with every name of a configuration; only at start and reload.
  if (!address && address.error().code == Code::kNotFound)
    address = io::resolve(names.host, names.port);
  if (!address) {
    return fmt::format("host not found in syslog server \"{}\" in {}:{}", text, server.at.file,
                       server.at.line);
  }
  server.syslog->set_address(address->get(), address->length);
  return {};
}

}  // namespace

std::string open_logs(http::LogFiles& files, const Identity& owner) {
  std::string problem;
  for (http::LogFile* file : files.files()) {
    auto fd = open_log(std::string(file->path), owner);
    if (!fd) {
      problem = describe_log_failure(file->path, fd.error());
      break;
    }
    file->fd = *fd;
  }
  for (const http::SyslogServer& server : files.syslogs()) {
    if (problem.empty()) problem = resolve_syslog(server);
  }
  if (problem.empty()) {
    files.publish();
  } else {
    close_logs(files);
  }
  return problem;
}

void close_logs(http::LogFiles& files) {
  for (http::LogFile* file : files.files()) {
    if (file->fd > 2) ::close(file->fd);
    file->fd = -1;
  }
}

void install_process_log(const conf::Configuration& configuration) {
  set_process_log(process_log_of(configuration));
  set_log_options(configuration.object<http::LogFiles>()->options());
}

}  // namespace corehttpd::server
