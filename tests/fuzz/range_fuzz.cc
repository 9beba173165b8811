// Range fields: the first eight bytes are the length of the representation, the rest is the field.
#include <cstdint>
#include <cstring>

#include "corehttpd/base/check.h"
#include "corehttpd/http/range.h"

using namespace corehttpd;
using namespace corehttpd::http;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t length = 0;
  if (size < sizeof(length)) return 0;
  std::memcpy(&length, data, sizeof(length));
  const std::string_view value(reinterpret_cast<const char*>(data) + sizeof(length),
                               size - sizeof(length));
  Arena arena;
  const RangeSet set = parse_ranges(arena, value, length, 100);
  CORE_CHECK((set.kind == RangeSet::Kind::kSome) == !set.ranges.empty());
  CORE_CHECK(set.ranges.size() <= 100);
  std::uint64_t total = 0;
  for (const ByteRange& range : set.ranges) {
    CORE_CHECK(range.first < range.end && range.end <= length);
    CORE_CHECK(range.length() <= length - total);  // Together never more than the whole.
    total += range.length();
    CORE_CHECK(content_range(arena, range, length).starts_with("bytes "));
    for (const ByteRange& other : set.ranges) {
      CORE_CHECK(&other == &range || other.end <= range.first || range.end <= other.first);
    }
  }
  return 0;
}
