#include "corehttpd/base/text.h"

#include <algorithm>
#include <array>

namespace corehttpd::text {
namespace {

// The second and later bytes of a UTF-8 sequence.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text[i])) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  return length;
}

bool equals_ignore_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

bool starts_with_ignore_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && equals_ignore_case(text.substr(0, prefix.size()), prefix);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    const std::uint64_t digit = static_cast<std::uint64_t>(c - '0');
    if (value > (UINT64_MAX - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

bool next_list_element(std::string_view& rest, std::string_view& element) {
  while (!rest.empty()) {
    std::size_t i = 0;
    bool quoted = false;
    for (; i < rest.size(); ++i) {
      if (quoted && rest[i] == '\\' && i + 1 < rest.size()) {
        ++i;
      } else if (rest[i] == '"') {
        quoted = !quoted;
      } else if (rest[i] == ',' && !quoted) {
        break;
      }
    }
    element = trim(rest.substr(0, i));
    rest.remove_prefix(std::min(i + 1, rest.size()));
    if (!element.empty()) return true;  // Empty elements are to be ignored (RFC 9110 §5.6.1.2).
  }
  return false;
}

bool list_contains(std::string_view list, std::string_view token) {
  std::string_view element;
  while (next_list_element(list, element)) {
    if (equals_ignore_case(element, token)) return true;
  }
  return false;
}

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  constexpr std::size_t kLengthMax = 64;
  if (a.size() > kLengthMax || b.size() > kLengthMax) return limit;
  std::array<std::size_t, kLengthMax + 1> row{};
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return std::min(row[b.size()], limit);
}

}  // namespace corehttpd::text
