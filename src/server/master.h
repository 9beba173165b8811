// The master: compiles the configuration, binds, opens logs, forks workers and replaces those that
// die; signals as nginx's.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/shm/segment.h"
#include "server/channel.h"
#include "server/command_line.h"
#include "server/counters.h"
#include "server/listeners.h"
#include "server/process.h"

namespace corehttpd::server {

class Master {
 public:
  explicit Master(const CommandLine& line);
  ~Master();
  // Serves until stopped; the process's exit status. Messages before the error log is open go to
  // stderr.
  int run();

 private:
  struct Child {
    pid_t pid = -1;
    int channel = -1;
    std::uint32_t slot = 0;
    std::uint32_t number = 0;
    std::uint64_t generation = 0;
    Milliseconds started_ms = 0;
    bool stopping = false;
  };
  struct Respawn {
    std::uint32_t number;
    Milliseconds due_ms;
  };

  // Start.
  bool load_first();
  bool prepare(conf::Configuration& configuration, std::string& message);
  bool create_counters();
  int run_alone();
  // Workers.
  bool start_workers();
  bool start_worker(std::uint32_t number);
  [[noreturn]] void become_worker(std::uint32_t number, std::uint32_t slot, int channel);
  void reap();
  void on_child_end(Child child, int status);
  void respawn_due();
  void signal_workers(int signal, bool only_old);
  std::uint32_t wanted_workers() const;
  // Signals.
  void handle(int signal);
  void reload();
  void reopen_logs();
  void tell_workers(const ChannelMessage& message, int fd, std::string_view what);
  void stop(int signal);

  const CommandLine& line_;
  conf::Options options_;
  std::unique_ptr<conf::Configuration> configuration_;
  Identity identity_;
  ListeningSockets sockets_;
  shm::Segment counters_segment_;
  std::unique_ptr<SharedCounters> counters_;
  std::vector<Child> children_;
  std::vector<Respawn> respawns_;
  std::string pid_path_;
  std::uint64_t generation_ = 1;
  sigset_t waited_;
  sigset_t original_;
  int exit_status_ = 0;
  bool stopping_ = false;
  bool paused_ = false;  // WINCH: workers have ended gracefully and are not replaced.
};

// Where the pid file of a configuration is.
std::string pid_path(const conf::Configuration& configuration);

}  // namespace corehttpd::server
