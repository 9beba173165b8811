// Byte ranges: nginx's range filters.
#include "corehttpd/http/range.h"

#include <fmt/core.h>

#include <cstring>

#include "corehttpd/http/conditional.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/transform/transforms.h"
#include "transform/range_source.h"

namespace corehttpd::transform {
namespace {

using http::ByteRange;
using http::Exchange;
using http::FieldName;
using http::RangeSet;

// Twenty digits that are unlikely to be in anybody's file. Not a secret: who chooses a file's
// content could as well put anything else in it.
std::string_view make_boundary(Exchange& exchange) {
  static std::uint64_t count = 0;
  std::uint64_t mixed = static_cast<std::uint64_t>(exchange.services().clock.wall_us());
  mixed = (mixed + ++count) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed ^= mixed >> 31;
  char digits[24];
  const auto end = fmt::format_to(digits, "{:020}", mixed);
  return exchange.arena().copy({digits, static_cast<std::size_t>(end - digits)});
}

bool ascending(std::span<const ByteRange> ranges) {
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].end) return false;
  }
  return true;
}

// May be nullptr for an empty representation: then no range is satisfiable and this isn't called.
http::BodySource* single(Exchange& exchange, const ByteRange& range, http::BodySource* body) {
  http::ResponseHead& head = exchange.response();
  Arena& arena = exchange.arena();
  head.fields.set(arena, "Content-Range", http::content_range(arena, range, *head.content_length));
  head.status = 206;
  head.reason = {};
  head.content_length = range.length();
  if (body->restrict(range.first, range.end)) return body;
  const auto parts = arena.make_array<RangeSource::Part>(1);
  parts[0].range = range;
  return arena.make<RangeSource>(*body, parts, BlockRef(), 0, false);
}

// nullptr, with nothing changed, when the whole would be the shorter answer.
http::BodySource* multiple(Exchange& exchange, std::span<const ByteRange> ranges,
                           http::BodySource* body) {
  http::ResponseHead& head = exchange.response();
  Arena& arena = exchange.arena();
  const std::string_view boundary = make_boundary(exchange);
  const std::string_view type_line =
      head.content_type.empty() ? std::string_view()
                                : arena.concat("Content-Type: ", head.content_type, "\r\n");
  ArenaVector<std::string_view> texts;
  const auto parts = arena.make_array<RangeSource::Part>(ranges.size());
  std::size_t texts_bytes = 0;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string_view text = arena.concat(
        "\r\n--", boundary, "\r\n", type_line,
        "Content-Range: ", http::content_range(arena, ranges[i], *head.content_length), "\r\n\r\n");
    texts.push_back(arena, text);
    parts[i] = {ranges[i], texts_bytes, texts_bytes + text.size()};
    texts_bytes += text.size();
    total += ranges[i].length();
  }
  texts.push_back(arena, arena.concat("\r\n--", boundary, "--\r\n"));
  texts_bytes += texts.back().size();
  total += texts_bytes;
  if (total > *head.content_length) return nullptr;
  const bool seekable = body->restrict(ranges[0].first, ranges[0].end);
  if (!seekable && !ascending(ranges)) return nullptr;

  // The transport may hold on to these bytes after the exchange is gone.
  BlockRef block = Block::allocate(texts_bytes);
  std::byte* to = block->data();
  for (std::string_view text : texts) {
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    to += text.size();
  }
  head.status = 206;
  head.reason = {};
  head.content_type = arena.concat("multipart/byteranges; boundary=", boundary);
  head.content_length = total;
  return arena.make<RangeSource>(*body, parts, std::move(block), texts_bytes, seekable);
}

http::BodySource* whole(Exchange& exchange, http::BodySource* body) {
  exchange.response().fields.set(exchange.arena(), "Accept-Ranges", "bytes");
  return body;
}

class Range final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    http::ResponseHead& head = exchange.response();
    const std::uint64_t ranges_max = exchange.settings<http::CoreSettings>().max_ranges;
    if (ranges_max == 0) head.accept_ranges = false;
    if (head.status != 200 || !head.accept_ranges || !head.content_length ||
        exchange.is_subrequest() || exchange.refused()) {
      return body;
    }
    const http::RequestHead& request = exchange.request();
    const http::Field* field = request.fields.find(FieldName::kRange);
    // Ranges are defined for GET only (RFC 9110 §14.2).
    if (field == nullptr || request.method != http::Method::kGet) return whole(exchange, body);
    const http::Validators validators{head.etag, head.last_modified};
    if (!http::if_range_matches(request, validators)) return whole(exchange, body);
    const RangeSet set =
        http::parse_ranges(exchange.arena(), field->value, *head.content_length, ranges_max);
    switch (set.kind) {
      case RangeSet::Kind::kWhole:
        return whole(exchange, body);
      case RangeSet::Kind::kUnsatisfiable:
        return unsatisfiable(exchange, body);
      case RangeSet::Kind::kSome:
        break;
    }
    if (body == nullptr) return whole(exchange, body);
    if (set.ranges.size() == 1) return single(exchange, set.ranges[0], body);
    http::BodySource* parts = multiple(exchange, set.ranges, body);
    if (parts != nullptr) return parts;
    return whole(exchange, body);
  }

 private:
  static http::BodySource* unsatisfiable(Exchange& exchange, http::BodySource* body) {
    http::FieldList fields;
    fields.set(exchange.arena(), "Content-Range",
               http::unsatisfied_range(exchange.arena(), *exchange.response().content_length));
    exchange.refuse(416, fields);
    return body;
  }
};

constexpr Range kRange;

}  // namespace

const http::Transform& range() { return kRange; }

}  // namespace corehttpd::transform
