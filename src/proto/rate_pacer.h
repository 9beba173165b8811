// Keeps a response to limit_rate: says how many bytes of its body may be taken now. The average
// since its begin counts, as in nginx, so that a client that was slow for a while may catch up.
// Bytes come in pieces of an eighth of a second, so that a limit costs about ten wake-ups a
// second below 8 MB/s.
#pragma once

#include <algorithm>
#include <cstdint>

#include "corehttpd/base/clock.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/response_rate.h"

namespace corehttpd::proto {

class RatePacer {
 public:
  // Above this a piece is as large as what transports move at a time anyway.
  static constexpr std::uint64_t kPieceMax = 1024 * 1024;

  // The response of exchange begins. Without a limit the pacer stays out of the way.
  void begin(const http::Exchange& exchange, Milliseconds now_ms) {
    const auto* rate = exchange.find_state<http::ResponseRate>();
    if (rate != nullptr) begin(rate->bytes_per_second.value_or(0), rate->after.value_or(0), now_ms);
  }
  void begin(std::uint64_t bytes_per_second, std::uint64_t after, Milliseconds now_ms) {
    rate_ = bytes_per_second;
    piece_ = std::clamp<std::uint64_t>(rate_ / 8, 1, kPieceMax);
    start_ms_ = now_ms;
    unlimited_ = after;
  }
  bool limited() const { return rate_ != 0; }

  // How many of wanted bytes (at least 1) may be taken now; 0: none before wait_ms() have passed.
  std::uint64_t allowance(std::uint64_t wanted, Milliseconds now_ms) const {
    if (!limited()) return wanted;
    const std::uint64_t earned = this->earned(now_ms);
    const std::uint64_t left = earned - std::min(earned, taken_);
    if (left < std::min(wanted, piece_)) return 0;
    return std::min(wanted, left);
  }
  void take(std::uint64_t bytes) { taken_ += bytes; }
  // Until wanted bytes, or a piece of them, may be taken; at least 1.
  Milliseconds wait_ms(std::uint64_t wanted, Milliseconds now_ms) const {
    const std::uint64_t target = taken_ + std::min(wanted, piece_);
    const std::uint64_t earned = this->earned(now_ms);
    if (target <= earned) return 1;
    const double ms = static_cast<double>(target - earned) * 1000.0 / static_cast<double>(rate_);
    // A day at most: the rest is waited for then.
    return static_cast<Milliseconds>(std::min(ms, 86'400'000.0)) + 1;
  }

 private:
  // The first piece is there at once. In floating point, whose error is far below a piece, since
  // bytes times milliseconds overflow.
  std::uint64_t earned(Milliseconds now_ms) const {
    const double bytes = static_cast<double>(rate_) / 1000.0 *
                         static_cast<double>(std::max<Milliseconds>(now_ms - start_ms_, 0));
    const double total = bytes + static_cast<double>(unlimited_) + static_cast<double>(piece_);
    return static_cast<std::uint64_t>(std::min(total, 9e18));
  }

  std::uint64_t rate_ = 0;
  std::uint64_t piece_ = 0;
  std::uint64_t unlimited_ = 0;
  std::uint64_t taken_ = 0;
  Milliseconds start_ms_ = 0;
};

}  // namespace corehttpd::proto
