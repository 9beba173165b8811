// A worker as server/worker.cc builds it, on the simulated loop, and what must hold when it is
// gone.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/handlers/access_log.h"
#include "corehttpd/handlers/error_page.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/proto/acceptor.h"
#include "server/counters.h"
#include "sim/sim_site.h"

namespace corehttpd::sim {

// Counts what passes through to the access log.
class WatchedLog final : public http::RequestLog {
 public:
  explicit WatchedLog(handlers::AccessLog& log) : log_(log) {}
  void log(http::Exchange& exchange) override;
  std::uint64_t calls() const { return calls_; }
  int lines_of(const std::string& target) const;

 private:
  handlers::AccessLog& log_;
  std::uint64_t calls_ = 0;
  std::map<std::string, int, std::less<>> by_target_;
};

class SimServer {
 public:
  explicit SimServer(const io::SimOptions& options);
  SimServer(const SimServer&) = delete;
  SimServer& operator=(const SimServer&) = delete;
  ~SimServer();

  io::SimLoop& loop() { return loop_; }
  io::SimPeer& connect() { return loop_.connect_to(listener_); }
  // A graceful end begins.
  void drain();
  // Connections that are still open end at once.
  void close_now() { acceptors_->connections().close_now(); }
  // After drain(): whoever is not accepted now never will be.
  bool accepting_stopped() const { return acceptors_->stopped(); }
  std::size_t connections() const { return acceptors_->connections().size(); }
  const WatchedLog& log() const { return watched_log_; }
  // Takes the worker apart and looks for what is left. All connections must be gone.
  void finish();

 private:
  struct Emptied : TurnTask {
    Emptied() : TurnTask([](TurnTask& task) { static_cast<Emptied&>(task).told = true; }) {}
    bool told = false;
  };
  void check_logs();

  test::TempDir directory_;
  io::SimLoop loop_;
  std::unique_ptr<conf::Configuration> configuration_;
  shm::Segment segment_;
  server::SharedCounters counters_;
  handlers::AccessLog access_log_;
  WatchedLog watched_log_;
  handlers::ErrorPages error_pages_;
  std::unique_ptr<assets::FileLookup> files_;
  http::Services services_;
  std::unique_ptr<proto::Acceptors> acceptors_;
  Emptied emptied_;
  int listener_ = -1;
  bool accepting_ = true;
};

}  // namespace corehttpd::sim
