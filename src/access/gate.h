// How the guards of the access phase are put together. See access.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/http/exchange.h"

namespace corehttpd::access {

// What one guard says of a request.
struct Verdict {
  enum class Kind : std::uint8_t {
    kNone,  // It has nothing to say: not configured here, no rule matches.
    kGranted,
    kRefused,  // 401 and 403 are refusals that another guard may outweigh; any other status ends
               // the request.
    kPending,  // conclude() will be called.
  } kind = Kind::kNone;
  std::uint16_t status = 0;

  static constexpr Verdict none() { return {}; }
  static constexpr Verdict granted() { return {Kind::kGranted, 0}; }
  static constexpr Verdict refused(std::uint16_t status) { return {Kind::kRefused, status}; }
  static constexpr Verdict pending() { return {Kind::kPending, 0}; }
};

using Guard = Verdict (*)(http::Exchange&);
Verdict check_address(http::Exchange& exchange);
Verdict check_password(http::Exchange& exchange);
Verdict ask_location(http::Exchange& exchange);

// For a guard that said kPending, once and only while the exchange lives: the phase goes on.
// verdict is not kPending.
void conclude(http::Exchange& exchange, Verdict verdict);
// Adds a WWW-Authenticate to the refusal, if it comes to one. value must live in the arena.
void challenge(http::Exchange& exchange, std::string_view value);

}  // namespace corehttpd::access
