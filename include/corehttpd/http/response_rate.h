// How fast a response may go to its client: limit_rate and limit_rate_after, "set $limit_rate" and
// X-Accel-Limit-Rate. State of an exchange (Exchange::state); whoever comes first decides, and
// transports read it when the head is sent.
#pragma once

#include <cstdint>
#include <optional>

namespace corehttpd::http {

struct ResponseRate {
  std::optional<std::uint64_t> bytes_per_second;  // 0: no limit. Not set: the location's.
  std::optional<std::uint64_t> after;             // Bytes of the body that go out unlimited first.
};

}  // namespace corehttpd::http
