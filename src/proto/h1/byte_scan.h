// Finding the first byte that ends or spoils a piece of a head: sixteen bytes at a time where SSE2
// exists (all of x86-64).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace corehttpd::h1 {

namespace detail {
constexpr bool is_field_stop(unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; }
constexpr bool is_target_stop(unsigned char c) { return c <= 0x20 || c == 0x7f; }
}  // namespace detail

// The first control character but HTAB, or end: where a field value ends (at CR or LF) or is
// malformed (anything else).
inline const char* find_field_stop(const char* p, const char* end) {
#if defined(__SSE2__)
  const __m128i low = _mm_set1_epi8(0x1f);
  const __m128i tab = _mm_set1_epi8('\t');
  const __m128i del = _mm_set1_epi8(0x7f);
  for (; end - p >= 16; p += 16) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i control =
        _mm_andnot_si128(_mm_cmpeq_epi8(v, tab), _mm_cmpeq_epi8(_mm_min_epu8(v, low), v));
    const auto mask =
        static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(control, _mm_cmpeq_epi8(v, del))));
    if (mask != 0) return p + std::countr_zero(mask);
  }
#endif
  while (p != end && !detail::is_field_stop(static_cast<unsigned char>(*p))) ++p;
  return p;
}

// The first blank or control character, or end: where a request target ends.
inline const char* find_target_stop(const char* p, const char* end) {
#if defined(__SSE2__)
  const __m128i low = _mm_set1_epi8(0x20);
  const __m128i del = _mm_set1_epi8(0x7f);
  for (; end - p >= 16; p += 16) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i stop =
        _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(v, low), v), _mm_cmpeq_epi8(v, del));
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(stop));
    if (mask != 0) return p + std::countr_zero(mask);
  }
#endif
  while (p != end && !detail::is_target_stop(static_cast<unsigned char>(*p))) ++p;
  return p;
}

// What a byte may be in a field name.
enum NameByte : std::uint8_t {
  kNotToken = 0,
  kPlain = 1,       // Letters, digits and "-": what nginx calls valid.
  kUnderscore = 2,  // Valid when underscores_in_headers says so.
  kOddToken = 3,    // Another tchar (RFC 9110 §5.6.2).
};

inline constexpr std::array<std::uint8_t, 256> kNameBytes = [] {
  std::array<std::uint8_t, 256> table{};
  for (unsigned char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '.', '^', '`', '|', '~'})
    table[c] = kOddToken;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = kPlain;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = kPlain;
  for (int c = '0'; c <= '9'; ++c) table[c] = kPlain;
  table['-'] = kPlain;
  table['_'] = kUnderscore;
  return table;
}();
constexpr NameByte name_byte(char c) {
  return static_cast<NameByte>(kNameBytes[static_cast<unsigned char>(c)]);
}
constexpr bool is_token_byte(char c) { return name_byte(c) != kNotToken; }

}  // namespace corehttpd::h1
