#include "corehttpd/http/range.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "corehttpd/base/text.h"

namespace corehttpd::http {
namespace {

// Positions beyond 64 bits are past any end, and mean just that.
std::optional<std::uint64_t> parse_position(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  for (char c : digits) {
    if (!text::is_digit(c)) return std::nullopt;
  }
  return text::parse_decimal(digits).value_or(UINT64_MAX);
}

enum class Verdict : std::uint8_t { kUnreadable, kWrong, kUnsatisfiable, kRange };

// One range-spec: "first-", "first-last" or "-suffix". Blanks around a number are nginx's leniency.
Verdict parse_spec(std::string_view spec, std::uint64_t length, ByteRange& range) {
  const std::size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return Verdict::kUnreadable;
  const std::string_view before = text::trim(spec.substr(0, dash));
  const std::string_view after = text::trim(spec.substr(dash + 1));
  const auto first = parse_position(before);
  const auto last = parse_position(after);
  if ((!first && !before.empty()) || (!last && !after.empty()) || (!first && !last)) {
    return Verdict::kUnreadable;
  }
  if (!first) {
    range = {length - std::min(*last, length), length};
  } else {
    if (last && *last < *first) return Verdict::kWrong;
    range = {*first, last && *last < length ? *last + 1 : length};
  }
  return range.first < range.end ? Verdict::kRange : Verdict::kUnsatisfiable;
}

// Heads of parts that one more range makes necessary: a single one has none, the second brings
// those of both.
constexpr std::uint64_t parts_added(std::size_t before) {
  return before == 0 ? 0 : before == 1 ? 2 : 1;
}

// Ranges that overlap become one (RFC 9110 §14.2), and then all stand in ascending order; those
// that merely touch stay apart. Without an overlap the client's order is kept.
std::span<const ByteRange> coalesce(std::span<const ByteRange> ranges, Arena& arena) {
  if (ranges.size() < 2) return ranges;
  auto sorted = arena.make_array<ByteRange>(ranges.size());
  std::copy(ranges.begin(), ranges.end(), sorted.begin());
  std::sort(sorted.begin(), sorted.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].first < sorted[last].end) {
      sorted[last].end = std::max(sorted[last].end, sorted[i].end);
    } else {
      sorted[++last] = sorted[i];
    }
  }
  return last + 1 == ranges.size() ? ranges : sorted.first(last + 1);
}

}  // namespace

RangeSet parse_ranges(Arena& arena, std::string_view value, std::uint64_t length,
                      std::uint64_t max_ranges) {
  constexpr std::string_view kUnit = "bytes=";
  if (max_ranges == 0 || !text::starts_with_ignore_case(value, kUnit)) return {};
  std::string_view rest = value.substr(kUnit.size());
  ArenaVector<ByteRange> ranges;
  bool any = false;
  std::uint64_t left = length;
  std::string_view spec;
  while (text::next_list_element(rest, spec)) {
    any = true;
    ByteRange range;
    switch (parse_spec(spec, length, range)) {
      case Verdict::kUnreadable:
        return {RangeSet::Kind::kUnsatisfiable, {}};
      case Verdict::kWrong:
        return {};
      case Verdict::kUnsatisfiable:
        // Of an empty file: all of it, as nginx has it, so that asking from the beginning is safe.
        if (range.first == 0) return {};
        break;
      case Verdict::kRange:
        if (ranges.size() == max_ranges) return {};
        // Judged as they come, so that a long list costs no more than the parts that could still
        // pay.
        if (range.length() > left) return {};
        left -= range.length();
        if (kPartOverhead * parts_added(ranges.size()) > left) return {};
        left -= kPartOverhead * parts_added(ranges.size());
        ranges.push_back(arena, range);
        break;
    }
  }
  if (!any) return {};
  if (ranges.empty()) return {RangeSet::Kind::kUnsatisfiable, {}};
  return {RangeSet::Kind::kSome, coalesce(ranges, arena)};
}

std::string_view content_range(Arena& arena, const ByteRange& range, std::uint64_t length) {
  char text[80];
  const auto end = fmt::format_to(text, "bytes {}-{}/{}", range.first, range.end - 1, length);
  return arena.copy({text, static_cast<std::size_t>(end - text)});
}

std::string_view unsatisfied_range(Arena& arena, std::uint64_t length) {
  char text[40];
  const auto end = fmt::format_to(text, "bytes */{}", length);
  return arena.copy({text, static_cast<std::size_t>(end - text)});
}

}  // namespace corehttpd::http
