// Byte ranges of a request (RFC 9110 §14), judged by the length of the representation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"

namespace corehttpd::http {

struct ByteRange {
  std::uint64_t first = 0;  // Offset of the first byte.
  std::uint64_t end = 0;    // One past the last; first < end <= length.
  std::uint64_t length() const { return end - first; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct RangeSet {
  enum class Kind : std::uint8_t {
    kWhole,  // Answer as if there were no Range: another unit, upside down, too many, or no gain.
    kUnsatisfiable,  // 416 with "Content-Range: bytes */length".
    kSome,  // 206: ranges holds one (Content-Range) or more (multipart/byteranges), none of which
            // overlap, in the order of the request or ascending.
  };
  Kind kind = Kind::kWhole;
  std::span<const ByteRange> ranges;
};

// What each part of a multipart/byteranges body costs beside its bytes, at least: boundary,
// Content-Type, Content-Range. Ranges that with it come to more than the whole representation are
// answered by that instead, so that no request can make a response larger than the file.
inline constexpr std::uint64_t kPartOverhead = 80;

// value: of the Range field. length: of the representation in bytes. max_ranges as the directive
// has it: 0 turns ranges off. Ranges live in arena. Of wrong fields, which §14.2 lets a server
// ignore or reject, what isn't a range at all is unsatisfiable, as nginx has it; one that ends
// before it begins is ignored. Last positions past the end are clamped.
RangeSet parse_ranges(Arena& arena, std::string_view value, std::uint64_t length,
                      std::uint64_t max_ranges);

// "bytes 0-99/1000", for a part or a single range; in arena.
std::string_view content_range(Arena& arena, const ByteRange& range, std::uint64_t length);
// "bytes */1000", for 416.
std::string_view unsatisfied_range(Arena& arena, std::uint64_t length);

}  // namespace corehttpd::http
