#include "upstream/name_cache.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/time.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "corehttpd/base/log.h"
#include "corehttpd/base/text.h"

namespace corehttpd::upstream {
namespace {

// Each server is asked again after so long, then after twice that, and so on.
constexpr int kFirstTimeoutMs = 2000;
constexpr int kTries = 5;

// What nginx would have called it. c-ares goes on to the next server after a refusal or a failure,
// and in the end knows of neither.
int code_of(int status) {
  switch (status) {
    case ARES_SUCCESS:
      return 0;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
      return NameAnswer::kNotFound;
    case ARES_EFORMERR:
    case ARES_EBADNAME:
      return 1;
    case ARES_ENOTIMP:
      return 4;
    case ARES_EREFUSED:
      return 5;
    case ARES_ETIMEOUT:
      return NameAnswer::kTimedOut;
    default:
      return 2;
  }
}

}  // namespace

NameCache::NameCache(io::Loop& loop, const Resolver& resolver)
    : loop_(loop),
      resolver_(resolver),
      timer_(
          [](io::Timer& t) {
            NameCache& cache = static_cast<Timer&>(t).cache;
            ares_process_fd(cache.channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
            cache.schedule();
          },
          *this),
      tell_([](TurnTask& t) { static_cast<Task&>(t).cache.tell(); }, *this) {}

bool NameCache::open_channel() {
  if (channel_ != nullptr) return true;
  if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) return false;
  ares_options options{};
  // Names are asked for as they are: neither search lists nor HOSTALIASES, nor /etc/hosts.
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
  options.timeout = kFirstTimeoutMs;
  options.tries = kTries;
  options.lookups = const_cast<char*>("b");
  options.sock_state_cb = [](void* self, ares_socket_t fd, int readable, int writable) {
    static_cast<NameCache*>(self)->on_socket(fd, readable != 0, writable != 0);
  };
  options.sock_state_cb_data = this;
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
             ARES_OPT_SOCK_STATE_CB | ARES_OPT_ROTATE;
#ifdef ARES_OPT_QUERY_CACHE
  mask |= ARES_OPT_QUERY_CACHE;  // None: answers are kept here.
  options.qcache_max_ttl = 0;
#endif
  int status = ares_init_options(&channel_, &options, mask);
  if (status == ARES_SUCCESS) {
    status = ares_set_servers_ports_csv(channel_, resolver_.servers.c_str());
    if (status == ARES_SUCCESS) return true;
    ares_destroy(std::exchange(channel_, nullptr));
  }
  channel_ = nullptr;
  log(nullptr, LogLevel::kAlert, "the resolver could not be started: {}", ares_strerror(status));
  return false;
}

const NameAnswer* NameCache::look_up(std::string_view text, NameWaiter& waiter) {
  std::string name(text);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  auto found = names_.find(name);
  if (found == names_.end()) {
    if (names_.size() >= kNamesMax) forget_old();
    found = names_.emplace(name, std::make_unique<Entry>(*this)).first;
  }
  Entry& entry = *found->second;
  if (!entry.asking && entry.told) {
    if (entry.answer.code == 0 && loop_.clock().now_ms() < entry.answer.valid_until_ms) {
      return &entry.answer;
    }
    ask(name, entry);
  }
  entry.waiters.push_back(waiter);
  return nullptr;
}

// Drops what is no longer valid; if that is not enough, anything that nobody waits for.
void NameCache::forget_old() {
  const Milliseconds now = loop_.clock().now_ms();
  const auto unused = [](const auto& name) { return !name.second->asking && name.second->told; };
  std::erase_if(names_, [&](const auto& name) {
    return unused(name) && name.second->answer.valid_until_ms <= now;
  });
  if (names_.size() >= kNamesMax) std::erase_if(names_, unused);
}

void NameCache::ask(const std::string& name, Entry& entry) {
  entry.answer = {};
  entry.asking = true;
  entry.told = false;
  ++asking_;
  if (asking_ > kQueriesMax || !open_channel()) return finish(entry, 2);
  ares_addrinfo_hints hints{};
  hints.ai_flags = ARES_AI_NOSORT;
  hints.ai_family = !resolver_.ipv6 ? AF_INET : !resolver_.ipv4 ? AF_INET6 : AF_UNSPEC;
  ares_getaddrinfo(
      channel_, name.c_str(), nullptr, &hints,
      [](void* context, int status, int, ares_addrinfo* result) {
        Entry& answered = *static_cast<Entry*>(context);
        answered.cache.on_answer(answered, status, result);
      },
      &entry);
  schedule();
}

void NameCache::on_answer(Entry& entry, int status, ares_addrinfo* found) {
  int ttl = INT_MAX;
  if (status == ARES_SUCCESS && found != nullptr) {
    for (const auto* alias = found->cnames; alias != nullptr; alias = alias->next) {
      ttl = std::min(ttl, alias->ttl);
    }
    for (const auto* node = found->nodes; node != nullptr; node = node->ai_next) {
      if (node->ai_family != AF_INET && node->ai_family != AF_INET6) continue;
      if (entry.answer.addresses.size() == kAddressesMax) break;
      io::Address& address = entry.answer.addresses.emplace_back();
      std::memcpy(&address.storage, node->ai_addr, node->ai_addrlen);
      address.length = node->ai_addrlen;
      ttl = std::min(ttl, node->ai_ttl);
    }
    if (entry.answer.addresses.empty()) status = ARES_ENODATA;
  }
  if (found != nullptr) ares_freeaddrinfo(found);
  // Longer than a day is nobody's intention; what is negative counts as zero (RFC 2181 §8).
  const Milliseconds valid =
      resolver_.valid.value_or(Milliseconds{1000} * std::clamp(ttl, 0, 86'400));
  entry.answer.valid_until_ms = loop_.clock().now_ms() + valid;
  finish(entry, code_of(status));
}

void NameCache::finish(Entry& entry, int code) {
  entry.answer.code = code;
  entry.asking = false;
  --asking_;
  answered_.push_back(&entry);
  loop_.turn().post(tell_);
}

void NameCache::tell() {
  for (Entry* entry : std::exchange(answered_, {})) {
    while (NameWaiter* waiter = entry->waiters.pop_front()) waiter->on_name(entry->answer);
    entry->told = true;
  }
}

// --- c-ares and the loop.

void NameCache::on_socket(int fd, bool readable, bool writable) {
  auto found = std::ranges::find(watches_, fd, &Watch::fd);
  if (!readable && !writable) {
    if (found == watches_.end()) return;
    Watch* watch = *found;
    watches_.erase(found);
    watch->closed = true;
    if (watch->pending()) {
      loop_.cancel(*watch);
    } else if (!watch->busy) {
      delete watch;
    }
    return;
  }
  if (found == watches_.end()) {
    watches_.push_back(new Watch(
        [](io::Operation& o, int result) {
          Watch& watch = static_cast<Watch&>(o);
          watch.cache.on_ready(watch, result);
        },
        *this, fd));
    found = watches_.end() - 1;
  }
  Watch& watch = **found;
  const bool changed = watch.readable != readable || watch.writable != writable;
  watch.readable = readable;
  watch.writable = writable;
  if (watch.busy) return;
  if (!watch.pending()) return watch_on(watch);
  if (changed) loop_.cancel(watch);  // It is begun anew when that is done.
}

void NameCache::watch_on(Watch& watch) {
  loop_.poll(watch.fd,
             static_cast<unsigned>((watch.readable ? POLLIN : 0) | (watch.writable ? POLLOUT : 0)),
             watch);
}

void NameCache::on_ready(Watch& watch, int result) {
  if (!watch.closed && result != -ECANCELED) {
    const bool failed = result < 0 || (result & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    watch.busy = true;
    ares_process_fd(channel_, failed || (result & POLLIN) != 0 ? watch.fd : ARES_SOCKET_BAD,
                    failed || (result & POLLOUT) != 0 ? watch.fd : ARES_SOCKET_BAD);
    watch.busy = false;
    schedule();
  }
  if (watch.closed) {
    delete &watch;
  } else {
    watch_on(watch);
  }
}

void NameCache::schedule() {
  timeval until{};
  if (channel_ == nullptr || ares_timeout(channel_, nullptr, &until) == nullptr) {
    return loop_.cancel(timer_);
  }
  loop_.schedule(timer_, Milliseconds{until.tv_sec} * 1000 + until.tv_usec / 1000 + 1);
}

}  // namespace corehttpd::upstream
