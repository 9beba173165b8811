#include "server/settings.h"

#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::server {
namespace {

using conf::Context;
using conf::Directive;
using conf::Kind;
using conf::Setting;
using S = ServerSettings;

bool set_worker_processes(const Setting& s) {
  auto& settings = *static_cast<S*>(s.settings);
  if (s.word(0) == "auto") {
    settings.worker_processes = 0;
    return true;
  }
  std::uint64_t value = 0;
  if (!conf::parse_number(s.word(0))) {
    return s.fail_text(0, fmt::format("\"{}\" directive invalid number", s.name()),
                       "it takes a whole number from 1 to 1024, or auto");
  }
  if (!conf::read_number(s, 0, 1, 1024, value)) return false;
  settings.worker_processes = static_cast<std::uint32_t>(value);
  return true;
}

bool set_user(const Setting& s) {
  auto& settings = *static_cast<S*>(s.settings);
  settings.user = s.word(0);
  settings.group = s.words().size() > 1 ? s.word(1) : std::string_view();
  // As in nginx: only root can become another user.
  if (::geteuid() != 0) {
    s.warn(0, "the \"user\" directive makes sense only if the master process is started by root");
    return true;
  }
  if (::getpwnam(std::string(settings.user).c_str()) == nullptr) {
    return s.fail_text(0, fmt::format("getpwnam(\"{}\") failed", settings.user),
                       "there is no such user");
  }
  if (!settings.group.empty() && ::getgrnam(std::string(settings.group).c_str()) == nullptr) {
    return s.fail_text(1, fmt::format("getgrnam(\"{}\") failed", settings.group),
                       "there is no such group");
  }
  return true;
}

bool set_affinity(const Setting& s) {
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    if (word == "auto" && i == 0) continue;
    if (word.find_first_not_of("01") != std::string_view::npos)
      return s.fail(i, "invalid character in CPU mask \"{}\"", word);
  }
  static_cast<S*>(s.settings)->pin_workers = true;
  return true;
}

bool set_priority(const Setting& s) {
  std::string_view word = s.word(0);
  const bool negative = word.starts_with('-');
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value > 20) {
    return s.fail(0, "invalid number \"{}\" in \"worker_priority\" directive", s.word(0));
  }
  static_cast<S*>(s.settings)->worker_priority = negative ? -value : value;
  return true;
}

bool set_core_limit(const Setting& s) {
  std::uint64_t bytes = 0;
  if (!conf::read_size(s, 0, bytes)) return false;
  static_cast<S*>(s.settings)->worker_rlimit_core = bytes;
  return true;
}

bool add_environment(const Setting& s) {
  const std::string_view word = s.word(0);
  if (word.empty() || word.front() == '=')
    return s.fail(0, "no name of a variable in \"{}\"", word);
  auto& settings = *static_cast<S*>(s.settings);
  settings.environment =
      s.arena().make<EnvironmentVariable>(EnvironmentVariable{word, settings.environment});
  return true;
}

bool open_events(const Setting&) { return true; }

// The master and the workers read the main context's settings; the events block has a copy of its
// own that nobody looks at.
bool set_worker_connections(const Setting& s) {
  std::uint64_t value = 0;
  if (!conf::read_number(s, 0, 1, INT32_MAX, value)) return false;
  s.compiler.settings<S>(*s.scope.parent).worker_connections = value;
  return true;
}

struct DebugClients {
  std::vector<IpNetwork> networks;
};

bool set_debug_connection(const Setting& s) {
  auto network = IpNetwork::parse(s.word(0));
  if (!network && s.word(0).find('/') == std::string_view::npos) {
    // A name; its first address, as it is now.
    if (const auto address = io::resolve(s.word(0), 1))
      network = IpNetwork::of(IpAddress::from_sockaddr(address->get()));
    if (!network) return s.fail(0, "host not found in debug_connection \"{}\"", s.word(0));
  }
  if (!network) return s.fail(0, "invalid network \"{}\" in debug_connection", s.word(0));
  s.compiler.object_or_make<DebugClients>().networks.push_back(*network);
  s.compiler.object_or_make<http::LogFiles>().note_level(LogLevel::kDebug);
  return true;
}

constexpr Directive kDirectives[] = {
    {.name = "daemon",
     .contexts = Context::kMain,
     .syntax = "on | off",
     .set = conf::set_flag<&S::daemon>,
     .default_value = "on",
     .doc = "Whether the server becomes a background process."},
    {.name = "debug_connection",
     .contexts = Context::kEvents,
     .syntax = "address | CIDR | unix:",
     .set = set_debug_connection,
     .inherit = conf::Inherit::kAppend,
     .doc = "Clients for whose connections everything down to debug is logged, whatever the levels "
            "of error_log are. May be given several times."},
    {.name = "env",
     .contexts = Context::kMain,
     .syntax = "variable[=value]",
     .set = add_environment,
     .inherit = conf::Inherit::kAppend,
     .doc =
         "A variable that the workers' environment keeps, or gets; without it TZ alone is kept."},
    {.name = "events",
     .contexts = Context::kMain,
     .kind = Kind::kBlock,
     .arity = conf::exactly(0),
     .set = open_events,
     .doc = "Holds the directives that affect connection processing.",
     .opens = Context::kEvents},
    {.name = "master_process",
     .contexts = Context::kMain,
     .syntax = "on | off",
     .set = conf::set_flag<&S::master_process>,
     .default_value = "on",
     .doc = "Whether workers are started; off is for development only."},
    {.name = "pid",
     .contexts = Context::kMain,
     .syntax = "file",
     .set = conf::set_path<&S::pid_path>,
     .doc = "File that stores the process ID of the master."},
    {.name = "user",
     .contexts = Context::kMain,
     .arity = conf::between(1, 2),
     .syntax = "user [group]",
     .set = set_user,
     .doc = "User and group of the workers. Without it they run as www-data, to which php-fpm's "
            "sockets belong, when the master is root."},
    {.name = "worker_connections",
     .contexts = Context::kEvents,
     .syntax = "number",
     .set = set_worker_connections,
     .doc = "Connections that one worker may hold. Without it the descriptor limit decides."},
    {.name = "worker_cpu_affinity",
     .contexts = Context::kMain,
     .arity = conf::at_least(1),
     .syntax = "auto | cpumask ...",
     .set = set_affinity,
     .doc = "Pins each worker to one of the available CPUs, in turn."},
    {.name = "worker_priority",
     .contexts = Context::kMain,
     .syntax = "number",
     .set = set_priority,
     .default_value = "0",
     .doc = "Nice value of the workers, from -20 to 20."},
    {.name = "worker_processes",
     .contexts = Context::kMain,
     .syntax = "number | auto",
     .set = set_worker_processes,
     .default_value = "auto",
     .doc = "Number of workers; auto honours the affinity mask and the cgroup's CPU quota."},
    {.name = "worker_rlimit_core",
     .contexts = Context::kMain,
     .syntax = "size",
     .set = set_core_limit,
     .doc = "Largest core file of a worker. Without it there are none: keys are in memory."},
    {.name = "worker_rlimit_nofile",
     .contexts = Context::kMain,
     .syntax = "number",
     .set = conf::set_number<&S::worker_rlimit_nofile, 1>,
     .doc = "Limit of open descriptors of a worker. Without it the hard limit is used."},
    {.name = "worker_sandbox",
     .contexts = Context::kMain,
     .syntax = "on | off",
     .set = conf::set_flag<&S::sandbox>,
     .default_value = "on",
     .doc = "Whether workers give up writing outside the directories that the configuration names "
            "and system calls that a server has no use for."},
    {.name = "worker_shutdown_timeout",
     .contexts = Context::kMain,
     .syntax = "time",
     .set = conf::set_time<&S::worker_shutdown_timeout>,
     .doc = "Time after which a worker that ends gracefully closes the connections still open."},
    {.name = "working_directory",
     .contexts = Context::kMain,
     .syntax = "directory",
     .set = conf::set_path<&S::working_directory>,
     .doc = "Current working directory of the workers."},
};
static_assert(conf::well_formed(kDirectives));

// cgroup v2: "max 100000" or "quota period" in microseconds. 0: no quota.
double cgroup_cpus() {
  std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re");
  if (file == nullptr) return 0;
  long quota = 0, period = 0;
  const int fields = std::fscanf(file, "%ld %ld", &quota, &period);
  std::fclose(file);
  return fields == 2 && quota > 0 && period > 0
             ? static_cast<double>(quota) / static_cast<double>(period)
             : 0;
}

}  // namespace

const conf::Module& server_module() {
  static constexpr conf::Module kModule = conf::module<ServerSettings>("server", kDirectives);
  return kModule;
}

std::span<const IpNetwork> debug_clients(const conf::Configuration& configuration) {
  const auto* clients = configuration.object<DebugClients>();
  if (clients == nullptr) return {};
  return clients->networks;
}

std::uint32_t available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const double quota = cgroup_cpus(); quota > 0)
    cpus = std::min(cpus, static_cast<int>(std::ceil(quota)));
  return static_cast<std::uint32_t>(std::max(cpus, 1));
}

}  // namespace corehttpd::server
