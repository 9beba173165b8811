#include "corehttpd/base/clock.h"

#include <cstdio>
#include <cstring>
#include <ctime>

#include "corehttpd/base/text.h"

namespace corehttpd {
namespace {

constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void put2(char* to, int value) {
  to[0] = static_cast<char>('0' + value / 10 % 10);
  to[1] = static_cast<char>('0' + value % 10);
}
void put4(char* to, int value) {
  put2(to, value / 100);
  put2(to + 2, value % 100);
}

int month_of(std::string_view name) {
  for (int i = 0; i < 12; ++i) {
    if (name == kMonths[i]) return i;
  }
  return -1;
}

int number(std::string_view text) {
  int value = 0;
  for (char c : text) {
    if (!text::is_digit(c)) return -1;
    value = value * 10 + (c - '0');
  }
  return text.empty() ? -1 : value;
}

// "hh:mm:ss"; false when it is not.
bool parse_clock(std::string_view t, std::tm& tm) {
  if (t.size() != 8 || t[2] != ':' || t[5] != ':') return false;
  tm.tm_hour = number(t.substr(0, 2));
  tm.tm_min = number(t.substr(3, 2));
  tm.tm_sec = number(t.substr(6, 2));
  return tm.tm_hour >= 0 && tm.tm_hour < 24 && tm.tm_min >= 0 && tm.tm_min < 60 && tm.tm_sec >= 0 &&
         tm.tm_sec <= 60;
}

std::int64_t finish(std::tm& tm) {
  constexpr int kDaysIn[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (tm.tm_mon < 0 || tm.tm_mday < 1 || tm.tm_mday > kDaysIn[tm.tm_mon]) return -1;
  return static_cast<std::int64_t>(timegm(&tm));
}

}  // namespace

void Clock::update() {
  timespec mono{}, wall{};
  clock_gettime(CLOCK_MONOTONIC, &mono);
  clock_gettime(CLOCK_REALTIME, &wall);
  monotonic_us_ = static_cast<std::int64_t>(mono.tv_sec) * 1'000'000 + mono.tv_nsec / 1000;
  monotonic_ms_ = monotonic_us_ / 1000;
  wall_us_ = static_cast<std::int64_t>(wall.tv_sec) * 1'000'000 + wall.tv_nsec / 1000;
  if (wall_seconds() != formatted_second_) format(wall_seconds());
}

void Clock::set(Milliseconds monotonic_ms, std::int64_t wall_us) {
  monotonic_ms_ = monotonic_ms;
  monotonic_us_ = monotonic_ms * 1000;
  wall_us_ = wall_us;
  if (wall_seconds() != formatted_second_) format(wall_seconds());
}

void Clock::format(std::int64_t second) {
  formatted_second_ = second;
  format_http_date(second, http_date_);
  const std::time_t t = second;
  std::tm tm{};
  localtime_r(&t, &tm);
  const int offset = static_cast<int>(tm.tm_gmtoff / 60);
  const char sign = offset < 0 ? '-' : '+';
  const int minutes = offset < 0 ? -offset : offset;
  std::memcpy(log_date_, "dd/Mon/yyyy:hh:mm:ss +hhmm", 27);
  put2(log_date_, tm.tm_mday);
  std::memcpy(log_date_ + 3, kMonths[tm.tm_mon], 3);
  put4(log_date_ + 7, tm.tm_year + 1900);
  put2(log_date_ + 12, tm.tm_hour);
  put2(log_date_ + 15, tm.tm_min);
  put2(log_date_ + 18, tm.tm_sec);
  log_date_[21] = sign;
  put2(log_date_ + 22, minutes / 60);
  put2(log_date_ + 24, minutes % 60);
  std::memcpy(iso_date_, "yyyy-mm-ddThh:mm:ss+hh:mm", 26);
  put4(iso_date_, tm.tm_year + 1900);
  put2(iso_date_ + 5, tm.tm_mon + 1);
  put2(iso_date_ + 8, tm.tm_mday);
  put2(iso_date_ + 11, tm.tm_hour);
  put2(iso_date_ + 14, tm.tm_min);
  put2(iso_date_ + 17, tm.tm_sec);
  iso_date_[19] = sign;
  put2(iso_date_ + 20, minutes / 60);
  put2(iso_date_ + 23, minutes % 60);
  std::memcpy(error_date_, "yyyy/mm/dd hh:mm:ss", 20);
  put4(error_date_, tm.tm_year + 1900);
  put2(error_date_ + 5, tm.tm_mon + 1);
  put2(error_date_ + 8, tm.tm_mday);
  put2(error_date_ + 11, tm.tm_hour);
  put2(error_date_ + 14, tm.tm_min);
  put2(error_date_ + 17, tm.tm_sec);
}

void format_http_date(std::int64_t unix_seconds, char* out) {
  const std::time_t t = unix_seconds;
  std::tm tm{};
  gmtime_r(&t, &tm);
  std::memcpy(out, "Day, dd Mon yyyy hh:mm:ss GMT", 29);
  std::memcpy(out, kDays[tm.tm_wday], 3);
  put2(out + 5, tm.tm_mday);
  std::memcpy(out + 8, kMonths[tm.tm_mon], 3);
  put4(out + 12, tm.tm_year + 1900);
  put2(out + 17, tm.tm_hour);
  put2(out + 20, tm.tm_min);
  put2(out + 23, tm.tm_sec);
}

std::int64_t parse_http_date(std::string_view text) {
  std::tm tm{};
  const std::size_t comma = text.find(',');
  if (comma == 3) {  // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
    if (text.size() != 29 || text.substr(25) != " GMT") return -1;
    tm.tm_mday = number(text.substr(5, 2));
    tm.tm_mon = month_of(text.substr(8, 3));
    const int year = number(text.substr(12, 4));
    if (year < 0 || !parse_clock(text.substr(17, 8), tm)) return -1;
    tm.tm_year = year - 1900;
    return finish(tm);
  }
  if (comma != std::string_view::npos) {  // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
    std::string_view rest = text.substr(comma + 1);
    if (rest.size() != 23 || rest.substr(19) != " GMT") return -1;
    tm.tm_mday = number(rest.substr(1, 2));
    tm.tm_mon = month_of(rest.substr(4, 3));
    const int year = number(rest.substr(8, 2));
    if (year < 0 || !parse_clock(rest.substr(11, 8), tm)) return -1;
    tm.tm_year = year < 70 ? year + 100 : year;
    return finish(tm);
  }
  // asctime: Sun Nov  6 08:49:37 1994
  if (text.size() != 24) return -1;
  tm.tm_mon = month_of(text.substr(4, 3));
  tm.tm_mday = number(text[8] == ' ' ? text.substr(9, 1) : text.substr(8, 2));
  const int year = number(text.substr(20, 4));
  if (year < 0 || !parse_clock(text.substr(11, 8), tm)) return -1;
  tm.tm_year = year - 1900;
  return finish(tm);
}

}  // namespace corehttpd
