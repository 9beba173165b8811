#include "corehttpd/http/memory_source.h"

#include <algorithm>
#include <cstring>

namespace corehttpd::http {

Result<ReadOutcome> StaticSource::read(std::span<Segment> out, std::size_t bytes_max, Forms) {
  const std::size_t length = std::min({bytes_max, text_.size(), Segment::kLengthMax});
  if (length == 0) return ReadOutcome{0, Next::kEnd};
  out[0] = Segment::from_static(text_.substr(0, length));
  text_.remove_prefix(length);
  return ReadOutcome{1, text_.empty() ? Next::kEnd : Next::kMore};
}

Result<ReadOutcome> BlockSource::read(std::span<Segment> out, std::size_t bytes_max, Forms) {
  if (segment_.length() == 0) return ReadOutcome{0, Next::kEnd};
  if (segment_.length() <= bytes_max) {
    out[0] = std::move(segment_);
    segment_ = Segment();
    return ReadOutcome{1, Next::kEnd};
  }
  out[0] = segment_.share(0, bytes_max);
  segment_.remove_prefix(bytes_max);
  return ReadOutcome{1, Next::kMore};
}

BodySource* make_text_source(Arena& arena, std::string_view text) {
  BlockRef block = Block::allocate(std::max<std::size_t>(text.size(), 1));
  if (!text.empty()) std::memcpy(block->data(), text.data(), text.size());
  return arena.make<BlockSource>(std::move(block), text.size());
}

}  // namespace corehttpd::http
