// Small text tools that every parser needs. ASCII only, no locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace corehttpd::text {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
// -1 when c is no hex digit.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}
bool equals_ignore_case(std::string_view a, std::string_view b);
// Is token one of the comma-separated elements of list? Case ignored, blanks around elements
// ignored.
bool list_contains(std::string_view list, std::string_view token);
bool starts_with_ignore_case(std::string_view text, std::string_view prefix);
// Blanks and tabs (RFC 9110 OWS) taken from both ends.
std::string_view trim(std::string_view text);
// Digits only, no sign; nothing on overflow of uint64.
std::optional<std::uint64_t> parse_decimal(std::string_view text);
// Next element of a comma-separated list, trimmed, with the comma consumed; quoted strings are kept
// whole. False at the end.
bool next_list_element(std::string_view& rest, std::string_view& element);
// Bytes of the valid UTF-8 sequence (RFC 3629) that text begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text);
// Edit distance, cut off at limit: for "did you mean".
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

}  // namespace corehttpd::text
