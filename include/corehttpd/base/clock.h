// Time as a worker sees it: read once per turn of the loop. Monotonic time drives timers and
// limits; the wall clock is for dates only, and may jump.
#pragma once

#include <cstdint>
#include <string_view>

namespace corehttpd {

using Milliseconds = std::int64_t;

class Clock {
 public:
  Clock() { update(); }
  // Reads both clocks. The formatted dates are made anew when the second changes.
  void update();
  // For the simulation: sets both instead of reading them.
  void set(Milliseconds monotonic_ms, std::int64_t wall_us);
  Milliseconds now_ms() const { return monotonic_ms_; }
  std::int64_t now_us() const { return monotonic_us_; }
  std::int64_t wall_seconds() const { return wall_us_ / 1'000'000; }
  std::int64_t wall_us() const { return wall_us_; }
  // "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 §5.6.7).
  std::string_view http_date() const { return {http_date_, 29}; }
  // "28/Sep/1970:12:00:00 +0600", nginx's $time_local.
  std::string_view log_date() const { return {log_date_, 26}; }
  // "1970-09-28T12:00:00+06:00", nginx's $time_iso8601.
  std::string_view iso_date() const { return {iso_date_, 25}; }
  // "1970/09/28 12:00:00", the error log's.
  std::string_view error_log_date() const { return {error_date_, 19}; }

 private:
  void format(std::int64_t second);
  Milliseconds monotonic_ms_ = 0;
  std::int64_t monotonic_us_ = 0;
  std::int64_t wall_us_ = 0;
  std::int64_t formatted_second_ = -1;
  char http_date_[30] = {};
  char log_date_[27] = {};
  char iso_date_[26] = {};
  char error_date_[20] = {};
};

// Writes 29 bytes of IMF-fixdate.
void format_http_date(std::int64_t unix_seconds, char* out);
// Parses the three forms of RFC 9110 §5.6.7; -1 when it is none of them.
std::int64_t parse_http_date(std::string_view text);

}  // namespace corehttpd
