#include "upstream/block_queue.h"

#include <algorithm>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {

void BlockQueue::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (first_ == chunks_.size() ||
        chunks_.back().end == static_cast<std::uint32_t>(chunks_.back().block->capacity())) {
      BlockRef block = pool_.take();
      // The pool's budget is spent, but these bytes have been received and cannot be refused any
      // more: one block from malloc. Whoever appends stops reading as soon as it sees its limit.
      if (!block) block = Block::allocate(BlockPool::kBlockBytes);
      chunks_.push_back({std::move(block), 0, 0});
    }
    Chunk& tail = chunks_.back();
    // Earlier parts of the block may be with a transport; what lies behind end is ours alone.
    const std::size_t now = std::min(bytes.size(), tail.block->capacity() - tail.end);
    std::memcpy(tail.block->data() + tail.end, bytes.data(), now);
    tail.end += static_cast<std::uint32_t>(now);
    bytes_ += now;
    bytes = bytes.subspan(now);
  }
}

Segment BlockQueue::peek() const {
  CORE_DCHECK(!empty());
  const Chunk& front = chunks_[first_];
  return Segment::from_block(front.block, front.begin, front.end - front.begin);
}

Segment BlockQueue::take(std::size_t bytes_max) {
  Segment segment = peek();
  if (segment.length() > bytes_max) segment.truncate(bytes_max);
  drop(segment.length());
  return segment;
}

void BlockQueue::drop(std::size_t count) {
  CORE_DCHECK(count <= bytes_);
  bytes_ -= count;
  while (count > 0) {
    Chunk& front = chunks_[first_];
    const auto now = std::min<std::size_t>(count, front.end - front.begin);
    front.begin += static_cast<std::uint32_t>(now);
    count -= now;
    if (front.begin < front.end) return;
    // The last block is kept while it has room: small flushes then share one.
    if (first_ + 1 == chunks_.size() && front.end < front.block->capacity()) return;
    front.block.reset();
    ++first_;
  }
  if (first_ == chunks_.size()) {
    chunks_.clear();
    first_ = 0;
  } else if (first_ >= 64) {
    chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void BlockQueue::clear() {
  chunks_.clear();
  first_ = 0;
  bytes_ = 0;
}

}  // namespace corehttpd::upstream
