#include "server/master.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "corehttpd/base/log.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/route/tree.h"
#include "server/channel.h"
#include "server/degraded.h"
#include "server/environment.h"
#include "server/log_opening.h"
#include "server/modules.h"
#include "server/settings.h"
#include "server/temp_paths.h"
#include "server/worker.h"

namespace corehttpd::server {

std::string pid_path(const conf::Configuration& configuration) {
  const std::string_view path = configuration.root.get<ServerSettings>().pid_path;
  return path.empty() ? kDefaultPid : std::string(path);
}

Master::Master(const CommandLine& line, Invocation invocation)
    : line_(line), invocation_(std::move(invocation)), options_(load_options(line)) {
  sigemptyset(&waited_);
  for (int signal :
       {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD, SIGALRM}) {
    sigaddset(&waited_, signal);
  }
}

Master::~Master() {
  if (signals_ >= 0) ::close(signals_);
}

int Master::run() {
  // Blocked before anything can send us one; a worker restores the mask.
  ::sigprocmask(SIG_BLOCK, &waited_, &original_);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // A limit on the sizes of files is an error of one write.
  signals_ = ::signalfd(-1, &waited_, SFD_CLOEXEC | SFD_NONBLOCK);
  started_at_ = ::time(nullptr);
  inherited_ = take_inheritance();
  if (inherited_) {
    report_ = inherited_->ready;
    sockets_.adopt(inherited_->listeners);
    elders_ = inherited_->elders;
    generation_number_ = inherited_->generation;
  }
  if (!load_first()) return 1;
  if (!current_->configuration->root.get<ServerSettings>().master_process) return run_alone();
  if (!begin()) return 1;
  while (!finished()) turn();
  return end();
}

// Says why the start failed to whoever waits for it: the master that would have handed over, or the
// command that the daemon came from. Always false.
bool Master::fail_start(const std::string& message) {
  report_to_elder(report_, message);
  return false;
}

// The same for what fails when there is a log already: there, and on the terminal too.
bool Master::fail_late(const std::string& message) {
  log(nullptr, LogLevel::kEmerg, "{}", message);
  if (report_ < 0 && process_log() != nullptr)
    std::fprintf(stderr, "corehttpd: [emerg] %s\n", message.c_str());
  return fail_start(message);
}

bool Master::load_first() {
  conf::Diagnostics diagnostics;
  auto configuration = load(options_, diagnostics, line_.error_log);
  if (!diagnostics.all().empty()) std::fprintf(stderr, "%s\n", diagnostics.format_all().c_str());
  if (configuration == nullptr) return fail_start(first_error(diagnostics));
  std::string message;
  Identity identity;
  if (!prepare(*configuration, identity, message)) {
    std::fprintf(stderr, "corehttpd: [emerg] %s\n", message.c_str());
    return fail_start(message);
  }
  install_process_log(*configuration);
  log_degraded(*configuration);
  if (!create_ticket_keys()) return fail_start("no shared memory for the tickets' keys");
  current_ = &start_generation(std::move(configuration), identity);
  return create_counters() || fail_start("no shared memory for the counters");
}

// Everything outside the process that a configuration needs. message says what failed; then nothing
// has changed.
bool Master::prepare(conf::Configuration& configuration, Identity& identity, std::string& message) {
  message = check_listeners(configuration);
  if (!message.empty()) return false;
  auto resolved = resolve_identity(configuration.root.get<ServerSettings>());
  if (!resolved) {
    const auto& settings = configuration.root.get<ServerSettings>();
    message = std::string(resolved.error().context) + " failed: no user or group \"" +
              std::string(settings.user.empty() ? "www-data" : settings.user) + "\" \"" +
              std::string(settings.group) + "\"";
    return false;
  }
  identity = *resolved;
  std::string failed;
  auto* files = configuration.object<http::LogFiles>();
  message = open_logs(*files, identity);
  if (!message.empty()) return false;
  if (auto made = make_temp_directories(configuration, identity, failed); !made) {
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
  return true;
}

// Inherited where the layout is the same, so that an upgrade goes on counting.
bool Master::create_counters() {
  constexpr std::uint32_t kVersion = SharedCounters::kLayoutVersion;
  if (inherited_ && inherited_->counters >= 0) {
    auto attached =
        shm::Segment::attach(inherited_->counters, kVersion, SharedCounters::data_bytes(), 0);
    if (attached) {
      counters_segment_ = std::move(*attached);
      counters_ = std::make_unique<SharedCounters>(counters_segment_);
      return true;
    }
    log(nullptr, LogLevel::kNotice, "the counters start anew: {}", attached.error().context);
    ::close(inherited_->counters);
  }
  auto segment =
      shm::Segment::create("corehttpd-counters", kVersion, SharedCounters::data_bytes(), 0);
  if (!segment) {
    log_errno(nullptr, LogLevel::kEmerg, segment.error().detail, "{} failed",
              segment.error().context);
    return false;
  }
  counters_segment_ = std::move(*segment);
  counters_ = std::make_unique<SharedCounters>(counters_segment_);
  return true;
}

// Background, pid file, workers. An upgrade's pid file and control socket are taken over only when
// its workers are ready.
bool Master::begin() {
  pid_path_ = pid_path(*current_->configuration);
  if (!inherited_) {
    if (master_listens(control_path(pid_path_))) {
      return fail_late("another master is running with the pid file \"" + pid_path_ + "\"");
    }
    if (current_->configuration->root.get<ServerSettings>().daemon) {
      auto report = daemonize();
      if (!report) return fail_late(describe_failure(report.error().context, report.error()));
      report_ = *report;
    }
    if (std::string message = show_up(); !message.empty()) {
      control_.close(true);
      return fail_late(message);
    }
  }
  set_title("corehttpd: master process " + line_.path);
  log(nullptr, LogLevel::kNotice, "corehttpd/{} {}, {} workers", CORE_VERSION,
      inherited_ ? "started to take over" : "started", wanted_workers(*current_));
  if (!start_workers(*current_)) stop(SIGTERM);
  return true;
}

int Master::run_alone() {
  conf::Configuration& configuration = *current_->configuration;
  pid_path_ = pid_path(configuration);
  if (auto written = write_pid_file(pid_path_); !written) {
    log_errno(nullptr, LogLevel::kEmerg, written.error().detail, "{} of \"{}\" failed",
              written.error().context, pid_path_);
    return 1;
  }
  // Stays who it is: development only, as nginx documents it.
  const WorkerSetup setup{configuration,
                          sockets_.descriptors(configuration.object<route::Tree>()->listeners()),
                          *counters_,
                          counters_->take_slot(),
                          0,
                          Identity{},
                          -1};
  service_.ready("serving without a master", false);
  const int status = run_worker(setup);
  sockets_.close_all();
  ::unlink(pid_path_.c_str());
  // As every worker ends: destructors would only add ways to crash.
  ::_exit(status);
}

void Master::turn() {
  wait();
  clock_.update();
  read_signals();
  reap();
  read_channels();
  check_starting();
  check_upgrade();
  check_settled();
  control_.work(clock_.now_ms());
  respawn_due();
  drop_ended();
  follow_libraries();
  catch_up();
  flush_folded_log(false);
  service_.keep_alive(clock_.now_ms());
}

void Master::wait() {
  std::vector<pollfd> polled{{signals_, POLLIN, 0}};
  control_.add_to(polled);
  for (const auto& generation : generations_) {
    for (const WorkerProcess& worker : generation->workers) {
      if (worker.phase != WorkerProcess::Phase::kDraining)
        polled.push_back({worker.channel, POLLIN, 0});
    }
  }
  if (upgrade_.fd() >= 0) polled.push_back({upgrade_.fd(), POLLIN, 0});
  // Timers of the master need no more than this: respawns, patience with clients and new binaries.
  Milliseconds timeout = 1000;
  if (service_.watchdog_interval() > 0) timeout = std::min(timeout, service_.watchdog_interval());
  ::poll(polled.data(), polled.size(), static_cast<int>(timeout));
}

void Master::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof(info)) == sizeof(info)) {
    handle(static_cast<int>(info.ssi_signo));
  }
}

void Master::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (pid == upgrade_.pid()) {
      on_upgrade_end(status);
      continue;
    }
    for (auto& generation : generations_) {
      auto& workers = generation->workers;
      const auto found = std::find_if(workers.begin(), workers.end(),
                                      [&](const WorkerProcess& w) { return w.pid == pid; });
      if (found == workers.end()) continue;
      const WorkerProcess worker = *found;
      workers.erase(found);
      on_worker_end(*generation, worker, status);
      break;
    }
  }
}

void Master::read_channels() {
  for (auto& generation : generations_) {
    for (WorkerProcess& worker : generation->workers) {
      const auto received = receive_message(worker.channel);
      if (!received) continue;
      if (received->message.type == ChannelMessage::Type::kReady)
        worker.phase = WorkerProcess::Phase::kAccepting;
      if (received->message.type == ChannelMessage::Type::kStopped)
        worker.phase = WorkerProcess::Phase::kDraining;
    }
  }
}

bool Master::finished() const {
  if (!stopping_ || (upgrade_.running() && !handed_over_)) return false;
  return std::all_of(generations_.begin(), generations_.end(),
                     [](const auto& g) { return g->workers.empty(); });
}

int Master::end() {
  control_.close(!handed_over_);
  if (handed_over_) {
    ::unlink((pid_path_ + kOldPidEnding).c_str());
  } else if (!inherited_ || ready_) {
    ::unlink(pid_path_.c_str());
  }
  sockets_.close_all();
  log(nullptr, LogLevel::kNotice, "exit");
  flush_folded_log(true);
  return exit_status_;
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
    case SIGUSR2:
      return stopping_ ? void() : start_upgrade();
    case SIGWINCH:
      if (current_->configuration->root.get<ServerSettings>().daemon) {
        paused_ = true;
        current_->signal(SIGQUIT);
      }
      return;
    default:
      return;
  }
}

void Master::stop(int signal) {
  if (!stopping_) service_.stopping();
  stopping_ = true;
  if (upgrade_.running() && !handed_over_) ::kill(upgrade_.pid(), SIGTERM);
  for (auto& generation : generations_) generation->signal(signal);
}

StatusFacts Master::status_facts() const {
  StatusFacts facts;
  facts.master = ::getpid();
  facts.started_at = started_at_;
  facts.now = ::time(nullptr);
  facts.configuration = line_.path;
  facts.generation = current_->number;
  for (const auto& generation : generations_) {
    StatusFacts::Generation shown{
        generation->number, to_string(generation->state), generation->started_at, {}};
    for (const WorkerProcess& worker : generation->workers) {
      shown.workers.push_back({worker.pid, worker.phase != WorkerProcess::Phase::kStarting,
                               (clock_.now_ms() - worker.started_ms) / 1000});
    }
    facts.generations.push_back(std::move(shown));
  }
  for (const conf::SiteFault& fault : current_->configuration->sites().faults()) {
    facts.degraded.push_back({std::string(fault.site->name), std::string(fault.reason),
                              std::string(fault.at.file), fault.at.line});
  }
  facts.older_masters = elders_.size();
  facts.counters = counters_->snapshot();
  facts.last_reload = last_reload_;
  facts.last_upgrade = last_upgrade_;
  return facts;
}

}  // namespace corehttpd::server
