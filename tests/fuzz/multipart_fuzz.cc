// Several ranges of one body: four bytes choose how source and reader behave (seekable, whether and
// when it blocks, how much it yields, how much is asked for) and the body's length, the rest is the
// Range field. What comes out is compared with the text that RFC 9110 §14.6 makes of it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "corehttpd/base/check.h"
#include "corehttpd/http/range.h"
#include "transform/range_source.h"

using namespace corehttpd;
using namespace corehttpd::http;

namespace {

struct Behaviour {
  bool seekable;
  bool blocks;
  std::size_t yield;  // At most so many bytes a read.
  std::size_t ask;
};

class Source final : public BodySource {
 public:
  Source(std::string_view text, const Behaviour& behaviour)
      : text_(text), behaviour_(behaviour), end_(text.size()) {}

  Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max, Forms) override {
    CORE_CHECK(bytes_max > 0 && !out.empty() && !cancelled_);
    if (behaviour_.blocks && (++reads_ & 1) != 0) return ReadOutcome{0, Next::kBlocked};
    const std::size_t length = std::min({bytes_max, end_ - at_, behaviour_.yield});
    if (length != 0) out[0] = Segment::from_static(text_.substr(at_, length));
    at_ += length;
    return ReadOutcome{length != 0 ? 1u : 0u, at_ == end_ ? Next::kEnd : Next::kMore};
  }
  bool restrict(std::uint64_t begin, std::uint64_t end) override {
    if (!behaviour_.seekable) return false;
    CORE_CHECK(begin <= end && end <= text_.size());
    at_ = begin;
    end_ = end;
    return true;
  }
  void cancel() noexcept override { cancelled_ = true; }

 private:
  const std::string_view text_;
  const Behaviour behaviour_;
  std::size_t at_ = 0, end_;
  unsigned reads_ = 0;
  bool cancelled_ = false;
};

std::string read_all(BodySource& source, const Behaviour& behaviour, std::size_t expected) {
  std::string text;
  // Each read yields a byte, blocks, or ends a part.
  for (std::size_t i = 0; i < 4 * expected + 4096; ++i) {
    Segment out[3];
    const auto outcome = source.read(out, behaviour.ask, Forms::kMemory);
    CORE_CHECK(outcome.has_value());
    std::size_t got = 0;
    for (std::uint32_t k = 0; k < outcome->segments; ++k) {
      got += out[k].view().size();
      text.append(out[k].view());
    }
    CORE_CHECK(got <= behaviour.ask && text.size() <= expected);
    if (outcome->next == Next::kEnd) return text;
  }
  CORE_CHECK(!"the body ends");
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const Behaviour behaviour{(data[0] & 1) != 0, (data[0] & 2) != 0, 1u + (data[0] >> 2),
                            1u + data[1]};
  const std::size_t length = data[2] | std::size_t{data[3] & 3u} << 8;
  std::string body(length, '\0');
  for (std::size_t i = 0; i < length; ++i) body[i] = static_cast<char>('a' + i % 23);

  Arena arena;
  const std::string_view field(reinterpret_cast<const char*>(data) + 4, size - 4);
  const RangeSet set = parse_ranges(arena, field, length, 50);
  if (set.kind != RangeSet::Kind::kSome) return 0;
  std::uint64_t position = 0;
  for (const ByteRange& range : set.ranges) {
    if (!behaviour.seekable && range.first < position) return 0;  // The caller sends the whole.
    position = range.end;
  }

  std::string texts, expected;
  std::vector<transform::RangeSource::Part> parts;
  for (const ByteRange& range : set.ranges) {
    const std::string head =
        "\r\n--b\r\nContent-Range: " + std::string(content_range(arena, range, length)) +
        "\r\n\r\n";
    parts.push_back({range, texts.size(), texts.size() + head.size()});
    texts += head;
    expected += head + body.substr(range.first, range.length());
  }
  texts += "\r\n--b--\r\n";
  expected += "\r\n--b--\r\n";
  BlockRef block = Block::allocate(texts.size());
  std::memcpy(block->data(), texts.data(), texts.size());

  Source inner(body, behaviour);
  if (behaviour.seekable) inner.restrict(set.ranges[0].first, set.ranges[0].end);
  transform::RangeSource source(inner, parts, std::move(block), texts.size(), behaviour.seekable);
  CORE_CHECK(read_all(source, behaviour, expected.size()) == expected);
  return 0;
}
