// USR2: a new binary is started as a child on the inherited sockets. It says through a pipe when
// its workers are ready; whatever else happens to it leaves the old master in force.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/error.h"
#include "server/inheritance.h"

namespace corehttpd::server {

// How this process was started, remembered before titles overwrite it.
struct Invocation {
  std::string executable;  // The path behind /proc/self/exe: where a package puts the next version.
  std::vector<std::string> arguments;
};
Invocation remember_invocation(int argc, char** argv);

class Upgrade {
 public:
  Upgrade() = default;
  Upgrade(const Upgrade&) = delete;
  Upgrade& operator=(const Upgrade&) = delete;
  ~Upgrade();

  // Forks and executes. Adds the pipe to what is inherited, and this process as the last elder with
  // its generations. mask: the signal mask to start with.
  Result<> start(const Invocation& invocation, Inheritance inheritance, std::uint32_t generations,
                 const sigset_t& mask, Milliseconds now_ms);
  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  int fd() const { return ready_; }  // To poll for reading; -1: nothing more will come.
  // Reads what the child says; true when it is ready. One that says nothing for a minute has failed
  // and is killed.
  bool ready(Milliseconds now_ms);
  // The child has ended before it was ready. Its last words, or how it ended.
  std::string ended(int status);
  // Lets go of a child that is ready, or of one that is being waited for in a child process.
  void forget();

 private:
  pid_t pid_ = -1;
  int ready_ = -1;
  Milliseconds started_ms_ = 0;
  bool too_late_ = false;
  std::string said_;
};

// The new binary's side: tells the master that started us. message "ready" or a reason; closes fd.
void report_to_elder(int& fd, const std::string& message);

// "exited on signal 9", "exited with code 1": nginx's words for a wait status.
std::string cause_of_end(int status);

}  // namespace corehttpd::server
