#include "transform/expires.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>

#include "corehttpd/conf/values.h"

namespace corehttpd::transform {
namespace {

// What four digits of a year can say; the directive's arithmetic may go beyond.
constexpr std::int64_t kDateMax = 253402300799;  // Fri, 31 Dec 9999 23:59:59 GMT.

// When the local clock next shows seconds after midnight. -1 when the C library can't tell.
std::int64_t next_time_of_day(std::int64_t now, std::int64_t seconds) {
  const auto start = static_cast<std::time_t>(now);
  std::tm local{};
  if (::localtime_r(&start, &local) == nullptr) return -1;
  local.tm_hour = static_cast<int>(seconds / 3600);
  local.tm_min = static_cast<int>(seconds % 3600 / 60);
  local.tm_sec = static_cast<int>(seconds % 60);
  local.tm_isdst = -1;
  std::tm today = local;
  const std::time_t next = std::mktime(&today);
  if (next == -1 || next > start) return next;
  ++local.tm_mday;  // mktime() carries it over the month's end.
  return std::mktime(&local);
}

void set_fields(http::Exchange& exchange, std::string_view expires, std::string_view control) {
  http::FieldList& fields = exchange.response().fields;
  fields.set(exchange.arena(), "Expires", expires);
  fields.set(exchange.arena(), "Cache-Control", control);
}

}  // namespace

std::optional<Expires> parse_expires(std::string_view text, bool modified) {
  if (!modified) {
    if (text == "epoch") return Expires{Expires::Kind::kEpoch, 0};
    if (text == "max") return Expires{Expires::Kind::kMax, 0};
    if (text == "off") return Expires{Expires::Kind::kOff, 0};
  }
  Expires expires{modified ? Expires::Kind::kModified : Expires::Kind::kAccess, 0};
  bool negative = false;
  if (text.starts_with('@')) {
    if (modified) return std::nullopt;
    expires.kind = Expires::Kind::kDaily;
    text.remove_prefix(1);
  } else if (text.starts_with('+') || text.starts_with('-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto time_ms = conf::parse_time_ms(text);
  if (!time_ms) return std::nullopt;
  expires.seconds = *time_ms / 1000;
  if (expires.kind == Expires::Kind::kDaily && expires.seconds > 24 * 3600) return std::nullopt;
  if (negative) expires.seconds = -expires.seconds;
  return expires;
}

void apply_expires(http::Exchange& exchange, const Expires& expires) {
  if (expires.kind == Expires::Kind::kOff) return;
  if (expires.kind == Expires::Kind::kEpoch) {
    return set_fields(exchange, "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache");
  }
  if (expires.kind == Expires::Kind::kMax) {
    return set_fields(exchange, "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000");
  }
  const std::int64_t now = exchange.services().clock.wall_seconds();
  const std::int64_t modified = exchange.response().last_modified;
  std::int64_t at = now + expires.seconds;
  if (expires.kind == Expires::Kind::kDaily) {
    at = next_time_of_day(now, expires.seconds);
  } else if (expires.kind == Expires::Kind::kModified && modified != -1) {
    at = modified + expires.seconds;
  }
  at = std::clamp<std::int64_t>(at, 0, kDateMax);
  Arena& arena = exchange.arena();
  char date[29];
  format_http_date(at, date);
  std::string_view control = "no-cache";
  if (expires.seconds >= 0 && at >= now) {
    char text[40];
    const auto end = fmt::format_to(text, "max-age={}", at - now);
    control = arena.copy({text, static_cast<std::size_t>(end - text)});
  }
  set_fields(exchange, arena.copy({date, sizeof date}), control);
}

}  // namespace corehttpd::transform
