// Keeps a flood of equal error lines from filling the disk: of the lines that are equal in target,
// level, message and client, the first kLinesPerWindow of each second are written, the rest
// counted. Memory is bounded: kEntries messages of kMessageMax bytes at most; longer messages are
// never folded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/log.h"

namespace corehttpd {

class LogFolding {
 public:
  static constexpr std::size_t kEntries = 64;
  static constexpr std::size_t kMessageMax = 1024;
  // So many are no flood; and tools that count lines per client within a time, as fail2ban does,
  // see every one of them.
  static constexpr std::uint32_t kLinesPerWindow = 10;
  static constexpr Milliseconds kWindow = 1000;

  struct Folded {
    const LogTarget* target = nullptr;
    LogLevel level = LogLevel::kError;
    std::string message, client;
    std::uint64_t count = 0;
  };
  // Writes the summing up of a flood; may log, and so come back here.
  using Write = void (*)(const Folded& folded);
  explicit LogFolding(Write write) : write_(write) {}

  // True: write the line. False: it was counted.
  bool admit(const LogTarget* target, LogLevel level, std::string_view message,
             std::string_view client, Milliseconds now);
  bool pending() const { return pending_ != 0; }
  void flush(bool all, Milliseconds now);
  void forget();

 private:
  struct Entry {
    Folded folded;
    std::uint64_t hash = 0;
    Milliseconds since = 0;
    std::uint32_t written = 0;  // In this window; 0: the entry is free.
  };
  static bool foldable(LogLevel level, std::string_view message);
  Entry& find(std::uint64_t hash, const LogTarget* target, LogLevel level, std::string_view message,
              std::string_view client);
  void sum_up(Entry& entry);

  Write write_;
  std::array<Entry, kEntries> entries_;
  std::size_t pending_ = 0;  // Entries that have counted something.
};

}  // namespace corehttpd
