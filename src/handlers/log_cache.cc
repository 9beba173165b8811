#include "handlers/log_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/io/append_file.h"
#include "handlers/log_writer.h"

namespace corehttpd::handlers {
namespace {

constexpr mode_t kMode = 0640;
constexpr Milliseconds kSweep = 1000;

// What a client puts into a variable must not lead out of the folder that the operator has written,
// nor make names that other tools stumble over.
bool acceptable(std::string_view path) {
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  const bool control = std::any_of(path.begin(), path.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  return !control && !path.empty() && path.back() != '/';
}

}  // namespace

struct LogCache::Entry : ListHook<LruTag>, ListHook<QueueTag> {
  struct Open final : io::OffloadTask {
    explicit Open(Entry& o) : owner(o) {}
    void run() noexcept override { result = io::open_append(owner.path, kMode); }
    void done() override { owner.cache.opened(owner); }
    Entry& owner;
    Result<io::AppendFile> result = fail(Code::kInternal, "open()");
  };
  struct Writer final : LogWriter {
    Writer(io::Loop& loop, Entry& o)
        : LogWriter(loop, o.path, -1, {},
                    [](LogWriter& w) {
                      Entry& entry = static_cast<Writer&>(w).owner;
                      entry.cache.became_idle(entry);
                    }),
          owner(o) {}
    Entry& owner;
  };

  Entry(LogCache& c, std::string_view p) : cache(c), path(p), writer(c.loop_, *this), open(*this) {}
  ~Entry() {
    if (writer.descriptor() >= 0) ::close(writer.descriptor());
  }
  bool queued() const { return ListHook<QueueTag>::linked(); }
  bool busy() const { return opening || queued() || !writer.empty(); }

  LogCache& cache;
  const std::string path;
  Writer writer;
  Open open;
  LogCachePolicy policy;
  Milliseconds used_ms = 0;
  Milliseconds valid_until_ms = 0;
  std::uint64_t uses = 0;
  bool opening = false;  // In an offload thread.
};

LogCache::LogCache(io::Loop& loop, std::size_t paths)
    : loop_(loop),
      refused_(paths),
      sweep_timer_([](io::Timer& t) { static_cast<SweepTimer&>(t).owner.sweep(); }, *this),
      clean_task_([](TurnTask& t) { static_cast<CleanTask&>(t).owner.clean(); }, *this) {}

LogCache::~LogCache() = default;

void LogCache::log(const AccessLogTarget& target, const LogCachePolicy& policy,
                   http::Exchange& exchange) {
  // Else names that clients make up would become files: nginx asks for the site's folder too.
  if (!root_exists(exchange)) return;
  const std::string_view path = evaluate(*target.variable_path, exchange);
  if (path.empty()) return;
  Entry* entry = find_or_make(path, policy);
  if (entry == nullptr) return lose(1);
  touch(*entry, policy);
  std::string* line = entry->writer.begin_line();
  if (line == nullptr) return;
  format_log_line(*target.format, exchange, *line);
  line->push_back('\n');
  if (entry->writer.descriptor() < 0 || loop_.clock().now_ms() >= entry->valid_until_ms)
    want_open(*entry);
  entry->writer.line_done();
}

bool LogCache::root_exists(http::Exchange& exchange) {
  const auto mapped = assets::map_path(exchange, exchange.uri());
  if (!mapped) return false;
  const std::string_view root = exchange.arena().copy(mapped->path.substr(0, mapped->root_bytes));
  const auto& files = exchange.settings<assets::Settings>().open_files;
  const auto found = exchange.services().files->probe(root, files);
  const int error = !found                                               ? found.error().detail
                    : found->kind == assets::FileEntry::Kind::kDirectory ? 0
                                                                         : ENOTDIR;
  if (error != 0) exchange.log(LogLevel::kError, error, "testing \"{}\" existence failed", root);
  return error == 0;
}

// Empty: nothing is logged.
std::string_view LogCache::evaluate(const LogPath& path, http::Exchange& exchange) {
  std::string_view text = path.program.evaluate(exchange);
  if (!text.empty() && text.front() != '/') text = exchange.arena().concat(path.prefix, text);
  if (acceptable(text)) return text;
  if (!refused_[path.index]) {
    refused_[path.index] = true;
    exchange.log(LogLevel::kError, 0,
                 "access_log \"{}\" would be \"{}\" and is not written, here and further on",
                 path.program.source(), text);
  }
  return {};
}

LogCache::Entry* LogCache::find_or_make(std::string_view path, const LogCachePolicy& policy) {
  if (const auto found = entries_.find(path); found != entries_.end()) return found->second.get();
  const std::size_t limit = policy.enabled ? policy.entries_max : kEntriesMax;
  for (Entry* old = used_.first(); old != nullptr && entries_.size() >= limit;) {
    Entry* next = used_.next(*old);
    if (!old->busy()) erase(*old);
    old = next;
  }
  if (entries_.size() >= std::max(limit, kEntriesMax)) return nullptr;
  if (std::exchange(overflowing_, false)) {
    corehttpd::log(nullptr, LogLevel::kWarn,
                   "log files named by variables are written again, {} lines were lost", lost_);
    lost_ = 0;
  }
  auto entry = std::make_unique<Entry>(*this, path);
  Entry& made = *entry;
  entries_.emplace(made.path, std::move(entry));
  if (!sweep_timer_.scheduled()) loop_.schedule(sweep_timer_, kSweep);
  return &made;
}

void LogCache::touch(Entry& entry, const LogCachePolicy& policy) {
  entry.policy = policy;
  entry.used_ms = loop_.clock().now_ms();
  ++entry.uses;
  used_.push_back(entry);
}

void LogCache::want_open(Entry& entry) {
  if (entry.opening || entry.queued()) return;
  entry.writer.hold(true);
  to_open_.push_back(entry);
  open_next();
}

void LogCache::open_next() {
  while (opening_ < kOpeningMax) {
    Entry* entry = to_open_.first();
    // A full queue of the loop's is asked again by the sweep.
    if (entry == nullptr || !loop_.offload(entry->open)) return;
    to_open_.pop_front();
    entry->opening = true;
    ++opening_;
  }
}

void LogCache::opened(Entry& entry) {
  entry.opening = false;
  --opening_;
  auto& result = entry.open.result;
  if (!result) {
    const std::string_view context = result.error().context;
    const std::uint64_t lines = entry.writer.discard();
    log_errno(nullptr, LogLevel::kCrit, result.error().detail,
              "open() \"{}\" failed while logging request, {} lines were lost{}{}", entry.path,
              lines, context == "open()" ? "" : ": it is ", context == "open()" ? "" : context);
    loop_.turn().post(clean_task_);
    entry.policy.enabled = false;
  } else {
    entry.valid_until_ms = loop_.clock().now_ms() + entry.policy.valid_ms;
    if (entry.writer.descriptor() < 0) {
      entry.writer.set_descriptor(result->fd);
    } else {
      entry.writer.replace(result->fd);
    }
  }
  entry.writer.hold(false);
  open_next();
}

// From within the writer: what is to go goes at the end of the turn.
void LogCache::became_idle(Entry& entry) {
  if (!entry.policy.enabled || entry.uses < entry.policy.uses_min ||
      entries_.size() > entry.policy.entries_max)
    loop_.turn().post(clean_task_);
}

void LogCache::clean() {
  for (Entry* entry = used_.first(); entry != nullptr;) {
    Entry* next = used_.next(*entry);
    if (!entry->busy()) {
      if (!entry->policy.enabled || entries_.size() > entry->policy.entries_max) {
        erase(*entry);
      } else if (entry->uses < entry->policy.uses_min && entry->writer.descriptor() >= 0) {
        ::close(entry->writer.descriptor());
        entry->writer.set_descriptor(-1);
      }
    }
    entry = next;
  }
}

void LogCache::sweep() {
  const Milliseconds now = loop_.clock().now_ms();
  open_next();
  for (Entry* entry = used_.first(); entry != nullptr;) {
    Entry* next = used_.next(*entry);
    if (!entry->busy() && now - entry->used_ms >= entry->policy.inactive_ms) erase(*entry);
    entry = next;
  }
  if (!entries_.empty()) loop_.schedule(sweep_timer_, kSweep);
}

void LogCache::erase(Entry& entry) { entries_.erase(entries_.find(entry.path)); }

void LogCache::lose(std::uint64_t lines) {
  lost_ += lines;
  if (!std::exchange(overflowing_, true)) {
    corehttpd::log(nullptr, LogLevel::kError,
                   "more than {} log files named by variables wait to be opened or written, lines "
                   "are dropped",
                   kEntriesMax);
  }
}

void LogCache::forget_opened() {
  for (Entry* entry = used_.first(); entry != nullptr;) {
    Entry* next = used_.next(*entry);
    entry->valid_until_ms = 0;
    if (!entry->busy()) erase(*entry);
    entry = next;
  }
}

void LogCache::finish() {
  for (auto& [path, entry] : entries_) {
    if (entry->opening) continue;
    if (entry->queued()) {
      static_cast<ListHook<QueueTag>&>(*entry).unlink();
      // The worker is about to end: waiting is all that is left to do.
      entry->open.run();
      if (entry->open.result) {
        if (entry->writer.descriptor() < 0) {
          entry->writer.set_descriptor(entry->open.result->fd);
        } else {
          entry->writer.replace(entry->open.result->fd);
        }
      }
    }
    entry->writer.finish();
  }
}

bool LogCache::idle() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& item) {
    return !item.second->opening && item.second->writer.idle();
  });
}

}  // namespace corehttpd::handlers
