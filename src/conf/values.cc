#include "corehttpd/conf/values.h"

#include <fmt/format.h>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"

namespace corehttpd::conf {
namespace {

// A unit of time; the array is ordered as a compound time has to be.
struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kDay = 24 * 60 * 60 * kSecond;
constexpr Unit kUnits[] = {
    {"y", 365 * kDay},        {"M", 30 * kDay},    {"w", 7 * kDay}, {"d", kDay},
    {"h", 60 * 60 * kSecond}, {"m", 60 * kSecond}, {"s", kSecond},  {"ms", 1},
};

// The digits at the front of rest, consumed. Nothing when there are none or too many.
std::optional<std::int64_t> take_digits(std::string_view& rest) {
  std::int64_t value = 0;
  std::size_t i = 0;
  for (; i < rest.size() && text::is_digit(rest[i]); ++i) {
    if (__builtin_mul_overflow(value, std::int64_t{10}, &value)) return std::nullopt;
    if (__builtin_add_overflow(value, rest[i] - '0', &value)) return std::nullopt;
  }
  if (i == 0) return std::nullopt;
  rest.remove_prefix(i);
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::uint64_t scale = 1;
  switch (text::lower(text.back())) {
    case 'k':
      scale = std::uint64_t{1} << 10;
      break;
    case 'm':
      scale = std::uint64_t{1} << 20;
      break;
    case 'g':
      scale = std::uint64_t{1} << 30;
      break;
    default:
      break;
  }
  if (scale != 1) text.remove_suffix(1);
  const auto count = text::parse_decimal(text);
  // The kernel's offsets are signed: nothing above that is a size.
  if (!count || *count > static_cast<std::uint64_t>(INT64_MAX) / scale) return std::nullopt;
  return *count * scale;
}

std::optional<Milliseconds> parse_time_ms(std::string_view text) {
  std::int64_t total = 0;
  std::size_t next_unit = 0;  // Each unit once, largest first, as in nginx.
  std::string_view rest = text;
  do {
    auto value = take_digits(rest);
    if (!value) return std::nullopt;
    std::size_t letters = 0;
    while (letters < rest.size() && rest[letters] != ' ' && !text::is_digit(rest[letters])) {
      ++letters;
    }
    // A bare number is seconds; nothing may follow it.
    const std::string_view name = letters > 0 ? rest.substr(0, letters) : "s";
    if (letters == 0 && !rest.empty()) return std::nullopt;
    while (next_unit < std::size(kUnits) && kUnits[next_unit].name != name) ++next_unit;
    if (next_unit == std::size(kUnits)) return std::nullopt;
    const std::int64_t scale = kUnits[next_unit++].milliseconds;
    if (__builtin_mul_overflow(*value, scale, &*value)) return std::nullopt;
    if (__builtin_add_overflow(total, *value, &total)) return std::nullopt;
    rest.remove_prefix(letters);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  } while (!rest.empty());
  return total;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  return text::parse_decimal(text);
}

std::optional<bool> parse_flag(std::string_view text) {
  if (text::equals_ignore_case(text, "on")) return true;
  if (text::equals_ignore_case(text, "off")) return false;
  return std::nullopt;
}

bool read_flag(const Setting& s, std::size_t word, bool& out) {
  if (const auto value = parse_flag(s.word(word))) {
    out = *value;
    return true;
  }
  return s.fail(word, "invalid value \"{}\" in \"{}\" directive, it must be \"on\" or \"off\"",
                s.word(word), s.name());
}

bool read_size(const Setting& s, std::size_t word, std::uint64_t& out) {
  if (const auto value = parse_size(s.word(word))) {
    out = *value;
    return true;
  }
  return s.fail_text(word, fmt::format("\"{}\" directive invalid value", s.name()),
                     "a size is a number of bytes, or with k, m or g: 512k");
}

bool read_time(const Setting& s, std::size_t word, Milliseconds& out) {
  if (const auto value = parse_time_ms(s.word(word))) {
    out = *value;
    return true;
  }
  return s.fail_text(word, fmt::format("\"{}\" directive invalid value", s.name()),
                     "a time is a number of seconds, or with units y M w d h m s ms: 1h30m");
}

bool read_number(const Setting& s, std::size_t word, std::uint64_t min, std::uint64_t max,
                 std::uint64_t& out) {
  const auto value = parse_number(s.word(word));
  if (!value) {
    return s.fail_text(word, fmt::format("\"{}\" directive invalid number", s.name()),
                       max >= INT32_MAX
                           ? fmt::format("it takes a whole number from {}", min)
                           : fmt::format("it takes a whole number from {} to {}", min, max));
  }
  if (*value < min || *value > max) {
    return s.fail(word, "value must be between {} and {}", min, max);
  }
  out = *value;
  return true;
}

bool read_path(const Setting& s, std::size_t word, std::string_view& out) {
  out = s.compiler.full_path(s.word(word));
  return true;
}

bool fail_choice(const Setting& s, std::size_t word, std::string_view allowed) {
  return s.fail_text(word, fmt::format("invalid value \"{}\"", s.word(word)),
                     fmt::format("\"{}\" takes one of: {}", s.name(), allowed));
}

}  // namespace corehttpd::conf
