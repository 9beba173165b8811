#include "base/log_folding.h"

#include <functional>
#include <utility>

namespace corehttpd {

// What is worst is never held back, and of debug lines each one and their order matter.
bool LogFolding::foldable(LogLevel level, std::string_view message) {
  return level > LogLevel::kAlert && level < LogLevel::kDebug && message.size() <= kMessageMax;
}

bool LogFolding::admit(const LogTarget* target, LogLevel level, std::string_view message,
                       std::string_view client, Milliseconds now) {
  if (!foldable(level, message)) return true;
  const std::uint64_t hash = std::hash<std::string_view>()(message) * 31 +
                             std::hash<std::string_view>()(client) + static_cast<unsigned>(level);
  Entry& entry = find(hash, target, level, message, client);
  if (entry.written != 0 && now - entry.since < kWindow && now >= entry.since) {
    if (entry.written < kLinesPerWindow) {
      ++entry.written;
      return true;
    }
    if (entry.folded.count++ == 0) ++pending_;
    return false;
  }
  if (entry.folded.count != 0) sum_up(entry);
  entry.folded = {target, level, std::string(message), std::string(client), 0};
  entry.hash = hash;
  entry.since = now;
  entry.written = 1;
  return true;
}

// The entry of exactly this line; else a free one, or the oldest.
LogFolding::Entry& LogFolding::find(std::uint64_t hash, const LogTarget* target, LogLevel level,
                                    std::string_view message, std::string_view client) {
  Entry* best = &entries_[0];
  for (Entry& entry : entries_) {
    const Folded& folded = entry.folded;
    if (entry.written != 0 && entry.hash == hash && folded.target == target &&
        folded.level == level && folded.message == message && folded.client == client)
      return entry;
    if (best->written != 0 && (entry.written == 0 || entry.since < best->since)) best = &entry;
  }
  if (best->folded.count != 0) sum_up(*best);
  best->written = 0;
  return *best;
}

void LogFolding::sum_up(Entry& entry) {
  // Taken out first: writing may come back here.
  const Folded folded = std::exchange(entry.folded, {});
  entry.written = 0;
  --pending_;
  write_(folded);
}

void LogFolding::flush(bool all, Milliseconds now) {
  for (Entry& entry : entries_) {
    if (entry.folded.count != 0 && (all || now - entry.since >= kWindow || now < entry.since))
      sum_up(entry);
  }
}

void LogFolding::forget() {
  for (Entry& entry : entries_) entry = Entry();
  pending_ = 0;
}

}  // namespace corehttpd
