// A bucket of tokens that bounds what a peer may make us do for nothing (rapid reset, floods of
// control frames): events take tokens, time and useful work give them back. Exceeding it ends the
// connection with ENHANCE_YOUR_CALM (RFC 9113 §10.5).
#pragma once

#include <algorithm>
#include <cstdint>

#include "corehttpd/base/clock.h"

namespace corehttpd::h2 {

class Budget {
 public:
  // capacity: tokens of a fresh bucket and the most it ever holds. per_second: what time gives
  // back.
  constexpr Budget(std::uint32_t capacity, std::uint32_t per_second)
      : thousandths_(capacity * std::int64_t{1000}),
        capacity_(capacity * std::int64_t{1000}),
        per_second_(per_second) {}

  // False when the tokens are spent.
  bool spend(Milliseconds now_ms, std::uint32_t tokens) {
    if (now_ms > refilled_ms_) {
      // The elapsed time is cut first, so that the product can't overflow after a long idle time or
      // a clock that was set.
      const Milliseconds elapsed = std::min<Milliseconds>(now_ms - refilled_ms_, 3'600'000);
      thousandths_ = std::min(capacity_, thousandths_ + elapsed * per_second_);
      refilled_ms_ = now_ms;
    }
    thousandths_ -= tokens * std::int64_t{1000};
    return thousandths_ >= 0;
  }
  void give_back(std::uint32_t tokens) {
    thousandths_ = std::min(capacity_, thousandths_ + tokens * std::int64_t{1000});
  }

 private:
  std::int64_t thousandths_;  // Tokens left, may be below 0.
  std::int64_t capacity_;
  std::uint32_t per_second_;
  Milliseconds refilled_ms_ = 0;
};

}  // namespace corehttpd::h2
