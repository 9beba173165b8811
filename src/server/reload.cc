// The part of the master that starts generations of workers, replaces one by the next, and keeps
// the serving one complete.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "corehttpd/base/log.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/io/append_file.h"
#include "corehttpd/route/tree.h"
#include "server/channel.h"
#include "server/degraded.h"
#include "server/environment.h"
#include "server/log_opening.h"
#include "server/master.h"
#include "server/modules.h"
#include "server/settings.h"
#include "server/worker.h"

namespace corehttpd::server {
namespace {

// Workers are ready within milliseconds; one that is not after this long never will be.
constexpr Milliseconds kStartPatience = 30'000;
// Old workers stop accepting within a turn of their loops.
constexpr Milliseconds kSettlePatience = 5'000;
// What the oldest generation gets to end by itself when its place is wanted: requests of ordinary
// length are through by then, even when reloads follow each other without a pause.
constexpr Milliseconds kRoomPatience = 2'000;

bool is_fatal(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == kFatalExit; }

std::span<route::Listener> listeners_of(const Generation& generation) {
  return generation.configuration->object<route::Tree>()->listeners();
}

}  // namespace

void Master::on_control(ControlRequest request, std::uint64_t client) {
  switch (request) {
    case ControlRequest::kStatus:
      return control_.answer(client, status_text(status_facts()));
    case ControlRequest::kStatusJson:
      return control_.answer(client, status_json(status_facts()));
    case ControlRequest::kReload:
      if (stopping_) return control_.answer(client, "failed: the server is ending\n");
      reload_clients_.push_back(client);
      return reload();
    case ControlRequest::kUpgrade:
      if (stopping_) return control_.answer(client, "failed: the server is ending\n");
      upgrade_clients_.push_back(client);
      return start_upgrade();
  }
}

std::uint32_t Master::wanted_workers(const Generation& generation) const {
  const std::uint32_t wanted =
      generation.configuration->root.get<ServerSettings>().worker_processes;
  return wanted == 0 ? available_cpus() : wanted;
}

Generation& Master::start_generation(std::unique_ptr<conf::Configuration> configuration,
                                     const Identity& identity) {
  auto generation = std::make_unique<Generation>();
  generation->number = ++generation_number_;
  generation->configuration = std::move(configuration);
  if (auto* store = generation->configuration->object<tls::Store>()) lend_tls_memory(*store);
  generation->identity = identity;
  generation->started_ms = clock_.now_ms();
  generation->started_at = ::time(nullptr);
  generations_.push_back(std::move(generation));
  return *generations_.back();
}

bool Master::start_workers(Generation& generation) {
  for (std::uint32_t i = 0; i < wanted_workers(generation); ++i) {
    if (!start_worker(generation, i)) return false;
  }
  return true;
}

bool Master::start_worker(Generation& generation, std::uint32_t number) {
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
    become_worker(generation, number, slot, channel->worker);
  }
  ::close(channel->worker);
  clock_.update();
  const auto* store = generation.configuration->object<tls::Store>();
  generation.workers.push_back({pid, channel->master, slot, number, clock_.now_ms(),
                                WorkerProcess::Phase::kStarting,
                                store == nullptr ? 0 : store->version()});
  log(nullptr, LogLevel::kNotice, "start worker process {}", pid);
  return true;
}

// The child's copies of what is the master's are closed: another worker's channel above all, whose
// end of file tells that worker that the master is gone.
void Master::become_worker(Generation& generation, std::uint32_t number, std::uint32_t slot,
                           int channel) {
  forget_folded_log();
  for (const auto& other : generations_) {
    for (const WorkerProcess& worker : other->workers) ::close(worker.channel);
  }
  for (const Elder& elder : elders_) ::close(elder.pidfd);
  if (report_ >= 0) ::close(report_);
  ::close(signals_);
  upgrade_.forget();
  certificate_watch_.close();
  control_.close_in_child();
  service_.hand_over();
  sockets_.close_others(listeners_of(generation));
  install_process_log(*generation.configuration);
  for (auto& other : generations_) {
    if (other.get() != &generation && other->configuration != nullptr)
      close_logs(*other->configuration->object<http::LogFiles>());
  }
  const WorkerSetup setup{*generation.configuration,
                          sockets_.descriptors(listeners_of(generation)),
                          *counters_,
                          slot,
                          number,
                          generation.identity,
                          channel};
  ::_exit(run_worker(setup));
}

void Master::on_worker_end(Generation& generation, const WorkerProcess& worker, int status) {
  ::close(worker.channel);
  counters_->release_slot(worker.slot);
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  log(nullptr, clean ? LogLevel::kNotice : LogLevel::kAlert, "worker process {} {}", worker.pid,
      cause_of_end(status));
  if (stopping_) return;
  if (&generation == pending_) {
    return abort_reload("worker process " + std::to_string(worker.pid) + " " +
                        cause_of_end(status) + " before it was ready");
  }
  if (&generation == current_ && !paused_) on_serving_worker_end(generation, worker, status);
}

void Master::on_serving_worker_end(Generation& generation, const WorkerProcess& worker,
                                   int status) {
  if (is_fatal(status)) {
    log(nullptr, LogLevel::kAlert,
        "worker process {} exited with fatal code {} and cannot be respawned", worker.pid,
        kFatalExit);
    exit_status_ = 1;
    if (generation.workers.empty()) {
      fail_start("its workers cannot start, see the error log");
      stop(SIGTERM);
    }
    return;
  }
  clock_.update();
  const Milliseconds pause =
      generation.pause_before_respawn(worker.number, clock_.now_ms() - worker.started_ms);
  if (pause > 1000) {
    log(nullptr, LogLevel::kAlert,
        "worker process {} is started again in {} s: it has ended too often", worker.number,
        pause / 1000);
  }
  generation.respawns.push_back({worker.number, clock_.now_ms() + pause});
}

void Master::respawn_due() {
  if (stopping_ || paused_) return;
  std::vector<Respawn> due;
  std::erase_if(current_->respawns, [&](const Respawn& r) {
    if (r.due_ms > clock_.now_ms()) return false;
    due.push_back(r);
    return true;
  });
  for (const Respawn& respawn : due) {
    if (!start_worker(*current_, respawn.number))
      current_->respawns.push_back({respawn.number, clock_.now_ms() + 1000});
  }
}

void Master::reload() {
  if (pending_ != nullptr || settling_since_ms_ || !ready_ || upgrade_.running() || !make_room()) {
    reload_again_ = true;
    return;
  }
  log(nullptr, LogLevel::kNotice, "reconfiguring");
  service_.reloading();
  conf::Diagnostics diagnostics;
  auto fresh = load(options_, diagnostics, line_.error_log);
  log_diagnostics(diagnostics);
  if (fresh == nullptr) return finish_reload(false, first_error(diagnostics));
  std::string message = find_newly_degraded(*current_->configuration, *fresh);
  Identity identity;
  if (!message.empty() || !prepare(*fresh, identity, message)) {
    log(nullptr, LogLevel::kEmerg, "{}", message);
    return finish_reload(false, message);
  }
  pending_ = &start_generation(std::move(fresh), identity);
  if (!start_workers(*pending_)) abort_reload("not all workers could be started");
}

void Master::check_starting() {
  Generation* starting = pending_ != nullptr ? pending_ : ready_ ? nullptr : current_;
  if (starting == nullptr || stopping_) return;
  if (!starting->workers.empty() && starting->all_ready()) {
    if (starting == pending_) return commit_reload();
    return take_over();
  }
  if (clock_.now_ms() - starting->started_ms < kStartPatience) return;
  if (starting == pending_) abort_reload("its workers are not ready after half a minute");
}

// The new generation serves. Only now does the old one begin to drain: had the new one failed,
// nothing would have changed.
void Master::commit_reload() {
  Generation& old = *std::exchange(current_, std::exchange(pending_, nullptr));
  current_->state = Generation::State::kServing;
  install_process_log(*current_->configuration);
  paused_ = false;
  sockets_.keep_only(listeners_of(*current_));
  drain(old);
  const std::string path = pid_path(*current_->configuration);
  if (path != pid_path_) {
    control_.close(true);
    ::unlink(pid_path_.c_str());
    pid_path_ = path;
    if (std::string message = show_up(); !message.empty())
      log(nullptr, LogLevel::kAlert, "{}", message);
  }
  settling_since_ms_ = clock_.now_ms();
}

// A reload or an upgrade has ended when no worker of before accepts any more: whoever asked for it
// may rely on the next connection's being answered by the new configuration.
void Master::check_settled() {
  if (!settling_since_ms_) return;
  const bool settled =
      std::all_of(generations_.begin(), generations_.end(), [&](const auto& generation) {
        return (generation.get() == current_ && !handed_over_) || generation->all_draining();
      });
  if (!settled && clock_.now_ms() - *settling_since_ms_ < kSettlePatience) return;
  settling_since_ms_.reset();
  handed_over_ ? finish_upgrade(true, {}) : finish_reload(true, {});
}

void Master::abort_reload(const std::string& reason) {
  Generation& failed = *std::exchange(pending_, nullptr);
  // Those of its workers that were ready may have accepted connections already.
  drain(failed);
  sockets_.keep_only(listeners_of(*current_));
  log(nullptr, LogLevel::kEmerg, "the new configuration cannot be served: {}", reason);
  finish_reload(false, reason);
}

void Master::finish_reload(bool taken, const std::string& reason) {
  last_reload_ = {::time(nullptr), taken, reason};
  if (!taken)
    log(nullptr, LogLevel::kError, "the new configuration was refused, the old one goes on");
  service_.ready(status_line(status_facts()), false);
  for (std::uint64_t client : std::exchange(reload_clients_, {}))
    control_.answer(client, taken ? "ok\n" : "failed: " + reason + "\n");
}

void Master::drain(Generation& generation) {
  generation.state = Generation::State::kDraining;
  generation.respawns.clear();
  generation.signal(SIGQUIT);
  close_logs(*generation.configuration->object<http::LogFiles>());
}

bool Master::make_room() {
  std::size_t alive = 0;
  for (const Elder& elder : elders_) alive += elder.generations;
  for (const auto& generation : generations_) {
    if (generation->state != Generation::State::kEnded) ++alive;
  }
  if (alive < kGenerationsMax) {
    room_wanted_since_ms_.reset();
    return true;
  }
  if (!room_wanted_since_ms_) room_wanted_since_ms_ = clock_.now_ms();
  if (clock_.now_ms() - *room_wanted_since_ms_ < kRoomPatience) return false;
  end_oldest();
  return make_room();
}

void Master::end_oldest() {
  if (!elders_.empty()) {
    log(nullptr, LogLevel::kWarn,
        "the connections of an older master are closed: no more than {} generations may be alive",
        kGenerationsMax);
    ::syscall(SYS_pidfd_send_signal, elders_.front().pidfd, SIGTERM, nullptr, 0);
    ::close(elders_.front().pidfd);
    elders_.erase(elders_.begin());
    return;
  }
  for (auto& generation : generations_) {
    if (generation->state != Generation::State::kDraining) continue;
    log(nullptr, LogLevel::kWarn,
        "the connections of generation {} are closed: no more than {} generations may be alive",
        generation->number, kGenerationsMax);
    generation->state = Generation::State::kEnded;
    return generation->signal(SIGTERM);
  }
}

void Master::drop_ended() {
  std::erase_if(generations_, [&](const auto& generation) {
    return generation.get() != current_ && generation.get() != pending_ &&
           generation->workers.empty();
  });
  std::erase_if(elders_, [](const Elder& elder) {
    pollfd polled{elder.pidfd, POLLIN, 0};
    if (::poll(&polled, 1, 0) != 1) return false;
    ::close(elder.pidfd);
    return true;
  });
}

// Draining generations write to their logs for hours, perhaps: they too get the new files.
void Master::reopen_logs() {
  log(nullptr, LogLevel::kNotice, "reopening logs");
  for (auto& generation : generations_) {
    for (const http::LogFile* file : generation->configuration->object<http::LogFiles>()->files())
      reopen_log(*file, *generation);
    // And what workers have opened themselves.
    for (const WorkerProcess& worker : generation->workers) {
      if (auto sent = send_message(worker.channel, {ChannelMessage::Type::kForgetLogs, 0});
          !sent && sent.error().detail != EPIPE)
        log_errno(nullptr, LogLevel::kAlert, sent.error().detail,
                  "worker process {} could not be told to reopen its logs", worker.pid);
    }
  }
}

void Master::reopen_log(const http::LogFile& file, Generation& generation) {
  // Once in the background descriptor 1 is not what it was when the log was opened.
  if (io::is_standard_stream(file.path)) return;
  auto fd = open_log(std::string(file.path), generation.identity);
  if (!fd) return log(nullptr, LogLevel::kEmerg, "{}", describe_log_failure(file.path, fd.error()));
  if (file.fd >= 0) ::dup3(*fd, file.fd, O_CLOEXEC);
  for (const WorkerProcess& worker : generation.workers) {
    if (auto sent =
            send_message(worker.channel, {ChannelMessage::Type::kReopenLog, file.index}, *fd);
        !sent && sent.error().detail != EPIPE) {  // EPIPE: it has just ended.
      log_errno(nullptr, LogLevel::kAlert, sent.error().detail,
                "worker process {} could not be told to reopen \"{}\"", worker.pid, file.path);
    }
  }
  ::close(*fd);
}

}  // namespace corehttpd::server
