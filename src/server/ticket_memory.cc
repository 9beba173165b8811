// The memory of the tickets' keys: sessions are resumed by every worker, after reloads and upgrades.
#include <unistd.h>

#include "corehttpd/base/log.h"
#include "server/master.h"

namespace corehttpd::server {

bool Master::create_ticket_keys() {
  constexpr std::uint32_t kVersion = tls::TicketKeys::kLayoutVersion;
  const std::size_t bytes = tls::TicketKeys::data_bytes();
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
  ticket_keys_ = std::make_unique<tls::TicketKeys>(
      std::span(tickets_segment_.data(), tickets_segment_.data_bytes()));
  return true;
}

}  // namespace corehttpd::server
