#include "proto/h1/input_buffer.h"

#include <algorithm>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::h1 {

bool InputBuffer::append(std::span<const std::byte> bytes, BlockPool& blocks) {
  const std::size_t held = end_ - begin_;
  if (!block_ || block_->capacity() - end_ < bytes.size()) {
    const std::size_t needed = held + bytes.size();
    BlockRef larger = needed <= BlockPool::kBlockBytes
                          ? blocks.take()
                          : Block::allocate(std::max(needed, 2 * held));
    if (!larger) return false;
    if (held != 0) std::memcpy(larger->data(), block_->data() + begin_, held);
    block_ = std::move(larger);
    begin_ = 0;
    end_ = static_cast<std::uint32_t>(held);
  }
  std::memcpy(block_->data() + end_, bytes.data(), bytes.size());
  end_ += static_cast<std::uint32_t>(bytes.size());
  return true;
}

void InputBuffer::consume(std::size_t count) {
  CORE_DCHECK(count <= end_ - begin_);
  begin_ += static_cast<std::uint32_t>(count);
  if (begin_ == end_) clear();
}

void InputBuffer::clear() {
  block_ = BlockRef();
  begin_ = end_ = 0;
}

}  // namespace corehttpd::h1
