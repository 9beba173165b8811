#include "server/master.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/log.h"
#include "corehttpd/http/core_settings.h"
#include "server/channel.h"
#include "server/degraded.h"
#include "server/environment.h"
#include "server/log_opening.h"
#include "server/modules.h"
#include "server/temp_paths.h"
#include "server/worker.h"

namespace corehttpd::server {
namespace {

// A worker that lived shorter than this is replaced only after a pause, so that a crash at start
// does not spin.
constexpr Milliseconds kShortLife = 1000;
constexpr Milliseconds kRespawnPause = 1000;

std::string cause_of_end(int status) {
  if (WIFSIGNALED(status)) {
    return "exited on signal " + std::to_string(WTERMSIG(status)) +
           (WCOREDUMP(status) ? " (core dumped)" : "");
  }
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::string pid_path(const conf::Configuration& configuration) {
  const std::string_view path = configuration.root.get<ServerSettings>().pid_path;
  return path.empty() ? kDefaultPid : std::string(path);
}

Master::Master(const CommandLine& line) : line_(line), options_(load_options(line)) {
  sigemptyset(&waited_);
  for (int signal :
       {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD, SIGALRM}) {
    sigaddset(&waited_, signal);
  }
}

Master::~Master() = default;

int Master::run() {
  // Blocked before anything can send us one; a worker restores the mask.
  ::sigprocmask(SIG_BLOCK, &waited_, &original_);
  if (!load_first()) return 1;
  const auto& settings = configuration_->root.get<ServerSettings>();
  if (!settings.master_process) return run_alone();
  if (settings.daemon) {
    if (auto done = daemonize(); !done) {
      log_errno(nullptr, LogLevel::kEmerg, done.error().detail, "{} failed", done.error().context);
      return 1;
    }
  }
  pid_path_ = pid_path(*configuration_);
  if (auto written = write_pid_file(pid_path_); !written) {
    log_errno(nullptr, LogLevel::kEmerg, written.error().detail, "{} of \"{}\" failed",
              written.error().context, pid_path_);
    return 1;
  }
  set_title("corehttpd: master process " + line_.path);
  log(nullptr, LogLevel::kNotice, "corehttpd/{} started, {} workers", CORE_VERSION,
      wanted_workers());
  if (!start_workers()) stop(SIGTERM);
  while (!stopping_ || !children_.empty()) {
    timespec wait{1, 0};
    const int signal = ::sigtimedwait(&waited_, nullptr, &wait);
    if (signal > 0) handle(signal);
    reap();
    respawn_due();
  }
  sockets_.close_all();
  ::unlink(pid_path_.c_str());
  log(nullptr, LogLevel::kNotice, "exit");
  return exit_status_;
}

bool Master::load_first() {
  conf::Diagnostics diagnostics;
  configuration_ = load(options_, diagnostics, line_.error_log);
  if (!diagnostics.all().empty()) std::fprintf(stderr, "%s\n", diagnostics.format_all().c_str());
  if (configuration_ == nullptr) return false;
  std::string message;
  if (!prepare(*configuration_, message)) {
    std::fprintf(stderr, "corehttpd: [emerg] %s\n", message.c_str());
    return false;
  }
  set_process_log(process_log_of(*configuration_));
  log_degraded(*configuration_);
  return create_counters();
}

// Everything outside the process that a configuration needs. message says what failed; then nothing
// has changed.
bool Master::prepare(conf::Configuration& configuration, std::string& message) {
  message = check_listeners(configuration);
  if (!message.empty()) return false;
  auto identity = resolve_identity(configuration.root.get<ServerSettings>());
  if (!identity) {
    const auto& settings = configuration.root.get<ServerSettings>();
    message = std::string(identity.error().context) + " failed: no user or group \"" +
              std::string(settings.user.empty() ? "www-data" : settings.user) + "\" \"" +
              std::string(settings.group) + "\"";
    return false;
  }
  std::string failed;
  auto* files = configuration.object<http::LogFiles>();
  if (auto opened = open_logs(*files, *identity, failed); !opened) {
    message = describe_failure("open() \"" + failed + "\"", opened.error());
    return false;
  }
  if (auto made = make_temp_directories(configuration, *identity, failed); !made) {
    message = describe_failure("mkdir() \"" + failed + "\"", made.error());
    close_logs(*files);
    return false;
  }
  if (auto bound = sockets_.open(configuration.object<route::Tree>()->listeners(), failed);
      !bound) {
    message = describe_failure(failed, bound.error());
    close_logs(*files);
    return false;
  }
  identity_ = *identity;
  return true;
}

bool Master::create_counters() {
  auto segment = shm::Segment::create("corehttpd-counters", SharedCounters::kLayoutVersion,
                                      SharedCounters::data_bytes(), 0);
  if (!segment) {
    log_errno(nullptr, LogLevel::kEmerg, segment.error().detail, "{} failed",
              segment.error().context);
    return false;
  }
  counters_segment_ = std::move(*segment);
  counters_ = std::make_unique<SharedCounters>(counters_segment_);
  return true;
}

int Master::run_alone() {
  pid_path_ = pid_path(*configuration_);
  if (auto written = write_pid_file(pid_path_); !written) {
    log_errno(nullptr, LogLevel::kEmerg, written.error().detail, "{} of \"{}\" failed",
              written.error().context, pid_path_);
    return 1;
  }
  // Stays who it is: development only, as nginx documents it.
  const WorkerSetup setup{*configuration_,
                          sockets_.descriptors(configuration_->object<route::Tree>()->listeners()),
                          *counters_,
                          counters_->take_slot(),
                          0,
                          Identity{},
                          -1};
  const int status = run_worker(setup);
  sockets_.close_all();
  ::unlink(pid_path_.c_str());
  // As every worker ends: destructors would only add ways to crash.
  ::_exit(status);
}

std::uint32_t Master::wanted_workers() const {
  const std::uint32_t wanted = configuration_->root.get<ServerSettings>().worker_processes;
  return wanted == 0 ? available_cpus() : wanted;
}

bool Master::start_workers() {
  for (std::uint32_t i = 0; i < wanted_workers(); ++i) {
    if (!start_worker(i)) return false;
  }
  return true;
}

bool Master::start_worker(std::uint32_t number) {
  auto channel = make_channel();
  if (!channel) {
    log_errno(nullptr, LogLevel::kAlert, channel.error().detail, "{} failed",
              channel.error().context);
    return false;
  }
  const std::uint32_t slot = counters_->take_slot();
  const pid_t pid = ::fork();
  if (pid < 0) {
    log_errno(nullptr, LogLevel::kAlert, errno, "fork() failed while spawning a worker process");
    ::close(channel->master);
    ::close(channel->worker);
    counters_->release_slot(slot);
    return false;
  }
  if (pid == 0) {
    ::close(channel->master);
    become_worker(number, slot, channel->worker);
  }
  ::close(channel->worker);
  Clock clock;
  children_.push_back({pid, channel->master, slot, number, generation_, clock.now_ms(), false});
  log(nullptr, LogLevel::kNotice, "start worker process {}", pid);
  return true;
}

void Master::become_worker(std::uint32_t number, std::uint32_t slot, int channel) {
  // Another worker's channel must not stay open here: its end of file tells that worker that the
  // master is gone.
  for (const Child& child : children_) ::close(child.channel);
  const WorkerSetup setup{
      *configuration_, sockets_.descriptors(configuration_->object<route::Tree>()->listeners()),
      *counters_,      slot,
      number,          identity_,
      channel};
  ::_exit(run_worker(setup));
}

void Master::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    const auto found = std::find_if(children_.begin(), children_.end(),
                                    [&](const Child& c) { return c.pid == pid; });
    if (found == children_.end()) continue;
    const Child child = *found;
    children_.erase(found);
    on_child_end(child, status);
  }
}

void Master::on_child_end(Child child, int status) {
  ::close(child.channel);
  counters_->release_slot(child.slot);
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  log(nullptr, clean ? LogLevel::kNotice : LogLevel::kAlert, "worker process {} {}", child.pid,
      cause_of_end(status));
  if (stopping_ || child.stopping || child.generation != generation_) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kFatalExit) {
    log(nullptr, LogLevel::kAlert,
        "worker process {} exited with fatal code {} and cannot be respawned", child.pid,
        kFatalExit);
    exit_status_ = 1;
    if (children_.empty()) stop(SIGTERM);
    return;
  }
  Clock clock;
  const bool short_lived = clock.now_ms() - child.started_ms < kShortLife;
  respawns_.push_back({child.number, clock.now_ms() + (short_lived ? kRespawnPause : 0)});
}

void Master::respawn_due() {
  if (respawns_.empty() || stopping_ || paused_) return;
  Clock clock;
  std::vector<Respawn> due;
  std::erase_if(respawns_, [&](const Respawn& r) {
    if (r.due_ms > clock.now_ms()) return false;
    due.push_back(r);
    return true;
  });
  for (const Respawn& respawn : due) {
    if (!start_worker(respawn.number))
      respawns_.push_back({respawn.number, clock.now_ms() + kRespawnPause});
  }
}

void Master::signal_workers(int signal, bool only_old) {
  for (Child& child : children_) {
    if (only_old && child.generation == generation_) continue;
    child.stopping = child.stopping || signal != SIGUSR1;
    ::kill(child.pid, signal);
  }
}

void Master::handle(int signal) {
  if (signal != SIGCHLD && signal != SIGALRM)
    log(nullptr, LogLevel::kNotice, "signal {} received", ::strsignal(signal));
  switch (signal) {
    case SIGTERM:
    case SIGINT:
      return stop(SIGTERM);
    case SIGQUIT:
      return stop(SIGQUIT);
    case SIGHUP:
      return stopping_ ? void() : reload();
    case SIGUSR1:
      return reopen_logs();
    case SIGWINCH:
      if (configuration_->root.get<ServerSettings>().daemon) {
        paused_ = true;
        signal_workers(SIGQUIT, false);
      }
      return;
    case SIGUSR2:
      return log(nullptr, LogLevel::kWarn,
                 "upgrading the binary is not supported yet, the signal is ignored");
    default:
      return;
  }
}

void Master::stop(int signal) {
  stopping_ = true;
  signal_workers(signal, false);
}

void Master::reload() {
  log(nullptr, LogLevel::kNotice, "reconfiguring");
  conf::Diagnostics diagnostics;
  auto fresh = load(options_, diagnostics, line_.error_log);
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
  std::string message;
  if (fresh == nullptr || degrades_healthy_sites(*configuration_, *fresh) ||
      !prepare(*fresh, message)) {
    if (!message.empty()) log(nullptr, LogLevel::kEmerg, "{}", message);
    log(nullptr, LogLevel::kError, "the new configuration was refused, the old one goes on");
    return;
  }
  auto old = std::exchange(configuration_, std::move(fresh));
  set_process_log(process_log_of(*configuration_));
  ++generation_;
  paused_ = false;
  respawns_.clear();
  // Before the fork: new workers would hold what only the old generation uses, and a removed
  // address would stay open.
  sockets_.keep_only(configuration_->object<route::Tree>()->listeners());
  close_logs(*old->object<http::LogFiles>());
  if (!start_workers())
    log(nullptr, LogLevel::kAlert, "not all workers of the new configuration could be started");
  signal_workers(SIGQUIT, true);
}

void Master::reopen_logs() {
  log(nullptr, LogLevel::kNotice, "reopening logs");
  for (const http::LogFile* file : configuration_->object<http::LogFiles>()->files()) {
    auto fd = open_log(std::string(file->path), identity_);
    if (!fd) {
      log_errno(nullptr, LogLevel::kEmerg, fd.error().detail, "open() \"{}\" failed", file->path);
      continue;
    }
    ::dup3(*fd, file->fd, O_CLOEXEC);
    for (const Child& child : children_) {
      if (child.generation != generation_) continue;  // Its list of files is another; it ends soon.
      if (auto sent =
              send_message(child.channel, {ChannelMessage::Type::kReopenLog, file->index}, *fd);
          !sent) {
        log_errno(nullptr, LogLevel::kAlert, sent.error().detail,
                  "worker process {} could not be told to reopen \"{}\"", child.pid, file->path);
      }
    }
    ::close(*fd);
  }
}

}  // namespace corehttpd::server
