// Access logs whose paths contain variables. The worker opens them itself, with its own rights, in
// an offload thread (folders may be anywhere, and each is looked at on the way). Lines are
// collected meanwhile. Without open_log_file_cache a file is closed when the lines of a turn are
// written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/base/list.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/handlers/access_log.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::handlers {

class LogCache {
 public:
  // Files that lines wait for at a time, unless open_log_file_cache keeps more: a flood of names
  // costs no more.
  static constexpr std::size_t kEntriesMax = 1024;
  static constexpr std::size_t kOpeningMax = 2;

  LogCache(io::Loop& loop, std::size_t paths);
  LogCache(const LogCache&) = delete;
  LogCache& operator=(const LogCache&) = delete;
  ~LogCache();

  void log(const AccessLogTarget& target, const LogCachePolicy& policy, http::Exchange& exchange);
  void forget_opened();
  void finish();
  bool idle() const;

 private:
  struct LruTag {};
  struct QueueTag {};
  struct Entry;
  struct SweepTimer : io::Timer {
    SweepTimer(Fire fire, LogCache& o) : Timer(fire), owner(o) {}
    LogCache& owner;
  };
  struct CleanTask : TurnTask {
    CleanTask(Run run, LogCache& o) : TurnTask(run), owner(o) {}
    LogCache& owner;
  };

  std::string_view evaluate(const LogPath& path, http::Exchange& exchange);
  bool root_exists(http::Exchange& exchange);
  Entry* find_or_make(std::string_view path, const LogCachePolicy& policy);
  void touch(Entry& entry, const LogCachePolicy& policy);
  void want_open(Entry& entry);
  void open_next();
  void opened(Entry& entry);
  void became_idle(Entry& entry);
  void clean();
  void sweep();
  void erase(Entry& entry);
  void lose(std::uint64_t lines);

  io::Loop& loop_;
  std::unordered_map<std::string_view, std::unique_ptr<Entry>> entries_;  // Keys are the entries'.
  List<Entry, LruTag> used_;  // Least recently used first.
  List<Entry, QueueTag> to_open_;
  std::size_t opening_ = 0;
  std::vector<bool> refused_;  // By LogPath::index: said that a path was not acceptable.
  std::uint64_t lost_ = 0;
  bool overflowing_ = false;
  SweepTimer sweep_timer_;
  CleanTask clean_task_;
};

}  // namespace corehttpd::handlers
