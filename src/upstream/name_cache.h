// What one worker knows of the names that one "resolver" is asked for, and the c-ares channel that
// asks. c-ares's sockets are watched with one-shot polls of the loop, its time-outs by one timer.
#pragma once

#include <ares.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/upstream/resolver.h"

namespace corehttpd::upstream {

class NameCache {
 public:
  // More names than this are asked for without being kept; more that are being asked for at once
  // fail.
  static constexpr std::size_t kNamesMax = 4096;
  static constexpr std::size_t kQueriesMax = 512;
  // Of one name.
  static constexpr std::size_t kAddressesMax = 128;

  NameCache(io::Loop& loop, const Resolver& resolver);
  const NameAnswer* look_up(std::string_view name, NameWaiter& waiter);

 private:
  struct Entry {
    NameCache& cache;
    bool asking = false;
    bool told = true;  // Nobody who waits has yet to hear of the answer.
    NameAnswer answer;
    List<NameWaiter> waiters;
  };
  // One socket of c-ares.
  struct Watch : io::Operation {
    Watch(Complete complete, NameCache& owner, int of)
        : io::Operation(complete), cache(owner), fd(of) {}
    NameCache& cache;
    int fd;
    bool readable = false;
    bool writable = false;
    bool closed = false;
    bool busy = false;  // c-ares is at work with it.
  };
  struct Timer : io::Timer {
    Timer(Fire fire, NameCache& owner) : io::Timer(fire), cache(owner) {}
    NameCache& cache;
  };
  struct Task : TurnTask {
    Task(Run run, NameCache& owner) : TurnTask(run), cache(owner) {}
    NameCache& cache;
  };

  bool open_channel();
  void ask(const std::string& name, Entry& entry);
  void on_answer(Entry& entry, int status, ares_addrinfo* found);
  void finish(Entry& entry, int code);
  void tell();
  void forget_old();
  void on_socket(int fd, bool readable, bool writable);
  void on_ready(Watch& watch, int result);
  void watch_on(Watch& watch);
  void schedule();

  io::Loop& loop_;
  const Resolver& resolver_;
  ares_channel channel_ = nullptr;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> names_;
  std::size_t asking_ = 0;
  std::vector<Watch*> watches_;
  std::vector<Entry*> answered_;  // Whose waiters are to be told.
  Timer timer_;
  Task tell_;
};

}  // namespace corehttpd::upstream
