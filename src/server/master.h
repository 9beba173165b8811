// The master: compiles the configuration, binds, opens logs, forks workers and replaces those that
// die; signals as nginx's. In three files: master.cc (start, loop, signals, end), reload.cc
// (generations and their workers), handover.cc (a new binary takes over).
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/shm/segment.h"
#include "corehttpd/tls/session_cache.h"
#include "corehttpd/tls/store.h"
#include "corehttpd/tls/tickets.h"
#include "server/command_line.h"
#include "server/control.h"
#include "server/counters.h"
#include "server/generation.h"
#include "server/inheritance.h"
#include "server/libraries.h"
#include "server/listeners.h"
#include "server/notify.h"
#include "server/status_report.h"
#include "server/upgrade.h"

namespace corehttpd::server {

class Master final : ControlServer::Handler {
 public:
  Master(const CommandLine& line, Invocation invocation);
  ~Master();
  // Serves until stopped; the process's exit status. Messages before the error log is open go to
  // stderr.
  int run();

 private:
  // Generations alive at one time, those of masters that drain after an upgrade included. When one
  // more is wanted the oldest is ended first.
  static constexpr std::size_t kGenerationsMax = 3;

  // Start.
  bool load_first();
  bool prepare(conf::Configuration& configuration, Identity& identity, std::string& message);
  bool create_counters();
  bool create_ticket_keys();
  // What outlives the configuration, for its TLS sites.
  void lend_tls_memory(tls::Store& store);
  tls::SessionCache* session_cache(const std::string& name, std::uint64_t bytes);
  bool begin();
  int run_alone();
  bool fail_start(const std::string& message);
  bool fail_late(const std::string& message);
  // The loop.
  void turn();
  void wait();
  void read_signals();
  void reap();
  void read_channels();
  bool finished() const;
  int end();
  // Generations (reload.cc).
  void on_control(ControlRequest request, std::uint64_t client) override;
  Generation& start_generation(std::unique_ptr<conf::Configuration> configuration,
                               const Identity& identity);
  bool start_workers(Generation& generation);
  bool start_worker(Generation& generation, std::uint32_t number);
  [[noreturn]] void become_worker(Generation& generation, std::uint32_t number, std::uint32_t slot,
                                  int channel);
  void on_worker_end(Generation& generation, const WorkerProcess& worker, int status);
  void on_serving_worker_end(Generation& generation, const WorkerProcess& worker, int status);
  void respawn_due();
  void reload();
  void check_starting();
  void commit_reload();
  void check_settled();
  void abort_reload(const std::string& reason);
  void finish_reload(bool taken, const std::string& reason);
  void drain(Generation& generation);
  // May one more generation start? If not, ask again later: the oldest gets a moment to end by
  // itself and is then ended.
  bool make_room();
  void end_oldest();
  void drop_ended();
  std::uint32_t wanted_workers(const Generation& generation) const;
  void reopen_logs();
  void reopen_log(const http::LogFile& file, Generation& generation);
  // A new binary (handover.cc).
  void start_upgrade();
  void check_upgrade();
  void on_upgrade_end(int status);
  void finish_upgrade(bool taken, const std::string& reason);
  void follow_libraries();
  void take_over();
  // Pid file and control socket; what failed, empty: nothing.
  std::string show_up();
  void catch_up();
  // Signals.
  void handle(int signal);
  void stop(int signal);
  StatusFacts status_facts() const;

  const CommandLine& line_;
  const Invocation invocation_;
  conf::Options options_;
  std::optional<Inheritance> inherited_;
  std::vector<Elder> elders_;
  ServiceManager service_;
  ControlServer control_{*this};
  ListeningSockets sockets_;
  shm::Segment counters_segment_;
  std::unique_ptr<SharedCounters> counters_;
  shm::Segment tickets_segment_;
  std::unique_ptr<tls::TicketKeys> ticket_keys_;
  // Of ssl_session_cache. One whose size has changed stays for the generations that have it.
  struct SessionZone {
    std::string name;
    shm::Segment segment;
    tls::SessionCache cache;
  };
  std::vector<std::unique_ptr<SessionZone>> session_zones_;
  // Oldest first. current_ is the one whose configuration is in force, pending_ the one that a
  // reload has started and that is not ready yet.
  std::vector<std::unique_ptr<Generation>> generations_;
  Generation* current_ = nullptr;
  Generation* pending_ = nullptr;
  Upgrade upgrade_;
  Libraries libraries_;
  std::vector<std::uint64_t> reload_clients_, upgrade_clients_;
  Outcome last_reload_, last_upgrade_;
  std::string pid_path_;
  std::uint64_t generation_number_ = 0;
  std::time_t started_at_ = 0;
  Clock clock_;
  sigset_t waited_;
  sigset_t original_;
  int signals_ = -1;
  int report_ = -1;  // Where the outcome of our start is waited for.
  int exit_status_ = 0;
  // Since when a generation more is wanted than may be alive.
  std::optional<Milliseconds> room_wanted_since_ms_;
  // Since when old workers are awaited to stop accepting.
  std::optional<Milliseconds> settling_since_ms_;
  bool ready_ = false;  // The first generation has come up.
  bool stopping_ = false;
  bool handed_over_ = false;   // A new binary serves; we only drain.
  bool reload_again_ = false;  // Asked for while another reload is under way.
  bool upgrade_again_ = false;
  bool paused_ = false;  // WINCH: workers have ended gracefully and are not replaced.
};

// Where the pid file of a configuration is.
std::string pid_path(const conf::Configuration& configuration);

}  // namespace corehttpd::server
