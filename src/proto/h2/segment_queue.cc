#include "proto/h2/segment_queue.h"

#include <algorithm>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::h2 {

bool SegmentQueue::append_copy(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!block_ || block_used_ == block_->capacity()) {
      block_ = pool_.take();
      block_used_ = 0;
      if (!block_) return false;
    }
    const std::size_t count = std::min(bytes.size(), block_->capacity() - block_used_);
    std::byte* to = block_->data() + block_used_;
    std::memcpy(to, bytes.data(), count);
    block_used_ += count;
    appended_ += count;
    bytes = bytes.subspan(count);
    // Directly behind the last segment: that one grows. Its block is ours, because nothing else is
    // written here.
    if (!empty() && segments_.back().kind() == Segment::Kind::kBlock &&
        segments_.back().bytes() + segments_.back().length() == to) {
      segments_.back().truncate(segments_.back().length() + count);
    } else {
      segments_.push_back(
          Segment::from_block(block_, static_cast<std::size_t>(to - block_->data()), count));
    }
  }
  return true;
}

bool SegmentQueue::append(Segment&& segment) {
  CORE_DCHECK(segment.in_memory());
  if (segment.length() <= kCopyMax) return append_copy({segment.bytes(), segment.length()});
  appended_ += segment.length();
  segments_.push_back(std::move(segment));
  return true;
}

std::size_t SegmentQueue::gather(std::span<iovec> out) const {
  std::size_t count = 0;
  for (std::size_t i = head_; i < segments_.size() && count < out.size(); ++i, ++count) {
    out[count] = {const_cast<std::byte*>(segments_[i].bytes()), segments_[i].length()};
  }
  return count;
}

void SegmentQueue::consume(std::uint64_t count) {
  CORE_DCHECK(count <= bytes());
  consumed_ += count;
  while (count > 0) {
    Segment& segment = segments_[head_];
    if (count < segment.length()) {
      segment.remove_prefix(count);
      break;
    }
    count -= segment.length();
    segment = Segment();
    ++head_;
  }
  if (empty()) {
    segments_.clear();
    head_ = 0;
    block_.reset();  // Back to the pool: idle connections own no buffers.
  } else if (head_ >= 64) {
    segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

void SegmentQueue::release_storage() {
  if (!empty()) return;
  std::vector<Segment>().swap(segments_);
  head_ = 0;
}

}  // namespace corehttpd::h2
