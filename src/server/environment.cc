#include "server/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "corehttpd/base/log.h"
#include "corehttpd/conf/reference.h"
#include "corehttpd/route/tree.h"
#include "corehttpd/tls/library.h"
#include "server/listeners.h"
#include "server/log_opening.h"
#include "server/master.h"
#include "server/modules.h"
#include "server/process.h"
#include "server/settings.h"

namespace corehttpd::server {
namespace {

// Where mime.types, fastcgi_params and the like of ours lie: installed, or in the source tree
// beside the build.
std::string shipped_directory() {
  constexpr const char* kInstalled = "/etc/corehttpd";
  if (::access("/etc/corehttpd/mime.types", R_OK) == 0) return kInstalled;
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof(self));
  if (length <= 0) return kInstalled;
  std::string path(self, static_cast<std::size_t>(length));
  for (int up = 0; up < 4; ++up) {  // build/release/corehttpd → the tree's root.
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
    if (::access((path + "/conf/mime.types").c_str(), R_OK) == 0) return path + "/conf";
  }
  return kInstalled;
}

// The nginx whose documentation we follow; tools compare it with the version that they need.
constexpr const char* kNginxVersion = "1.26.3";
constexpr const char* kConfigureLine =
    "configure arguments: --prefix=/usr/share/corehttpd "
    "--conf-path=/etc/corehttpd/corehttpd.conf --error-log-path=/var/log/corehttpd/error.log "
    "--http-log-path=/var/log/corehttpd/access.log --pid-path=/run/corehttpd.pid "
    "--with-http_ssl_module --with-http_v2_module --with-http_realip_module "
    "--with-http_auth_request_module --with-http_stub_status_module --with-pcre-jit";

}  // namespace

conf::Options load_options(const CommandLine& line) {
  conf::Options options;
  options.prefix = line.prefix;
  options.path = line.path;
  options.global_text = line.global_text;
  options.fallback_directory = shipped_directory();
  return options;
}

std::string check_listeners(const conf::Configuration& configuration) {
  const route::Tree* tree = configuration.object<route::Tree>();
  if (tree == nullptr) return "no \"http\" section in configuration";
  if (!tree->sites().empty() && configuration.object<route::Tree>()->listeners().empty()) {
    return "no address is left to listen on: all are of QUIC, which is still to come";
  }
  return {};
}

std::string describe_failure(const std::string& what, const Error& error) {
  return what + " failed (" + std::to_string(error.detail) + ": " + std::strerror(error.detail) +
         ")";
}

namespace {

// Can the pid file be made? It is written aside and renamed, so the directory decides.
std::string check_pid_path(const std::string& path) {
  struct stat status {};
  int error = 0;
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    error = EISDIR;
  } else {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (::access(directory.c_str(), W_OK | X_OK) != 0) error = errno;
  }
  return error == 0 ? std::string()
                    : describe_failure("open() \"" + path + "\"",
                                       Error{Code::kSystem, Party::kSelf, error, "open()"});
}

}  // namespace

std::string check_environment(const conf::Configuration& configuration,
                              conf::Diagnostics& diagnostics) {
  if (std::string message = check_listeners(configuration); !message.empty()) return message;
  auto identity = resolve_identity(configuration.root.get<ServerSettings>());
  if (!identity) return std::string(identity.error().context) + " failed: no such user or group";
  std::string failed;
  auto* files = configuration.object<http::LogFiles>();
  if (std::string problem = open_logs(*files, *identity); !problem.empty()) return problem;
  close_logs(*files);
  std::vector<std::string> warnings;
  const auto bound =
      test_listeners(configuration.object<route::Tree>()->listeners(), failed, warnings);
  for (std::string& warning : warnings)
    diagnostics.add(conf::Severity::kWarning, {}, std::move(warning));
  if (!bound) return describe_failure(failed, bound.error());
  return check_pid_path(pid_path(configuration));
}

std::string first_error(const conf::Diagnostics& diagnostics) {
  for (const conf::Diagnostic& d : diagnostics.all()) {
    if (d.severity != conf::Severity::kError) continue;
    return d.line == 0 ? d.message : d.message + " in " + d.file + ":" + std::to_string(d.line);
  }
  return "the configuration is wrong";
}

void log_diagnostics(const conf::Diagnostics& diagnostics) {
  for (const conf::Diagnostic& d : diagnostics.all()) {
    const LogLevel level = d.severity == conf::Severity::kError     ? LogLevel::kEmerg
                           : d.severity == conf::Severity::kWarning ? LogLevel::kWarn
                                                                    : LogLevel::kNotice;
    if (d.line == 0) {
      log(nullptr, level, "{}", d.message);
    } else {
      log(nullptr, level, "{} in {}:{}", d.message, d.file, d.line);
    }
  }
}

std::string compatible_version() {
  std::string out = "nginx version: nginx/";
  out += kNginxVersion;
  out += " (compatible; corehttpd/" CORE_VERSION ")\nbuilt by gcc " __VERSION__ "\n";
  if (const char* library = tls::library_at_build(); *library != '\0') {
    out += std::string("built with ") + library + "\nTLS SNI support enabled\n";
  }
  out += kConfigureLine;
  return out + "\n";
}

int describe(const std::string& directive) {
  if (directive.empty()) {
    std::fputs(conf::describe_all(modules()).c_str(), stdout);
    return 0;
  }
  const std::string text = conf::describe(modules(), directive);
  if (!text.empty()) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "corehttpd: unknown directive \"%s\"\n", directive.c_str());
  for (std::string_view name : conf::nearest_names(modules(), directive)) {
    std::fprintf(stderr, "  did you mean \"%.*s\"?\n", static_cast<int>(name.size()), name.data());
  }
  return 1;
}

int write_reference(const std::string& directory) {
  if (directory.empty()) {
    std::fputs("corehttpd: --reference needs a directory\n", stderr);
    return 1;
  }
  for (const conf::Module* module : modules()) {
    if (module->directives.empty()) continue;
    std::ofstream file(directory + "/" + std::string(module->name) + ".md", std::ios::binary);
    file << conf::reference_markdown(modules(), *module);
    if (!file.flush()) {
      std::fprintf(stderr, "corehttpd: can't write to \"%s\"\n", directory.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace corehttpd::server
