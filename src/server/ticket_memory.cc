// The memory of TLS sessions: they are resumed by every worker, after reloads and upgrades.
#include <unistd.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "corehttpd/base/log.h"
#include "server/master.h"

namespace corehttpd::server {

bool Master::create_ticket_keys() {
  constexpr std::uint32_t kVersion = tls::TicketKeys::kLayoutVersion;
  // The guard's memory is behind the keys'.
  const std::size_t key_bytes = (tls::TicketKeys::data_bytes() + 63) / 64 * 64;
  const std::size_t bytes = key_bytes + tls::ReplayGuard::data_bytes();
  if (inherited_ && inherited_->tickets >= 0) {
    auto attached = shm::Segment::attach(inherited_->tickets, kVersion, bytes, 0);
    if (attached) {
      tickets_segment_ = std::move(*attached);
    } else {
      log(nullptr, LogLevel::kNotice, "TLS sessions are not resumed: {}", attached.error().context);
      ::close(inherited_->tickets);
    }
  }
  if (!tickets_segment_) {
    auto segment = shm::Segment::create("corehttpd-tickets", kVersion, bytes, 0);
    if (!segment) {
      log_errno(nullptr, LogLevel::kEmerg, segment.error().detail, "{} failed",
                segment.error().context);
      return false;
    }
    tickets_segment_ = std::move(*segment);
  }
  const std::span memory(tickets_segment_.data(), tickets_segment_.data_bytes());
  ticket_keys_ = std::make_unique<tls::TicketKeys>(memory.first(key_bytes));
  replay_guard_ = std::make_unique<tls::ReplayGuard>(memory.subspan(key_bytes));
  return true;
}

namespace {

// A zone is known by its name (FNV-1a).
std::uint64_t definition_of(const std::string& name) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

// The one that an older binary made, else a new one.
Result<shm::Segment> open_zone(const std::string& name, std::size_t bytes,
                               std::optional<Inheritance>& inherited) {
  constexpr std::uint32_t kVersion = tls::SessionCache::kLayoutVersion;
  const std::uint64_t definition = definition_of(name);
  if (inherited) {
    for (int& fd : inherited->sessions) {
      if (fd < 0) continue;
      auto attached = shm::Segment::attach(fd, kVersion, bytes, definition);
      if (!attached) continue;
      fd = -1;
      return attached;
    }
  }
  return shm::Segment::create("corehttpd-sessions", kVersion, bytes, definition);
}

}  // namespace

tls::SessionCache* Master::session_cache(const std::string& name, std::uint64_t bytes) {
  for (const auto& zone : session_zones_) {
    if (zone->name == name && zone->segment.data_bytes() == bytes) return &zone->cache;
  }
  auto segment = open_zone(name, bytes, inherited_);
  if (!segment) {
    log_errno(nullptr, LogLevel::kAlert, segment.error().detail,
              "{} failed, session cache \"{}\" is not kept", segment.error().context, name);
    return nullptr;
  }
  const std::span memory(segment->data(), segment->data_bytes());
  session_zones_.push_back(std::make_unique<SessionZone>(
      SessionZone{name, std::move(*segment), tls::SessionCache(memory)}));
  return &session_zones_.back()->cache;
}

void Master::lend_tls_memory(tls::Store& store) {
  store.use(*ticket_keys_);
  store.use(*replay_guard_);
  for (const auto& [name, bytes] : store.zones()) {
    if (tls::SessionCache* cache = session_cache(name, bytes)) store.use(name, *cache);
  }
  // What no site has any more is let go, after the first configuration has taken what it wants.
  if (!inherited_) return;
  for (int& fd : inherited_->sessions) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
  inherited_->sessions.clear();
}

}  // namespace corehttpd::server
