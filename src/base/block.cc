#include "corehttpd/base/block.h"

#include <cstdlib>
#include <new>

#include "corehttpd/base/check.h"

namespace corehttpd {

BlockRef Block::allocate(std::size_t capacity) {
  CORE_CHECK(capacity <= UINT32_MAX);
  void* memory = std::malloc(sizeof(Block) + capacity);
  CORE_CHECK(memory != nullptr);
  return BlockRef(new (memory) Block(nullptr, static_cast<std::uint32_t>(capacity)));
}

void Block::destroy() {
  if (pool_ != nullptr) {
    pool_->give_back(this);
  } else {
    std::free(this);
  }
}

BlockPool::~BlockPool() {
  CORE_DCHECK(in_use_ == 0);
  while (free_ != nullptr) {
    Block* block = free_;
    free_ = block->next_free_;
    std::free(block);
  }
}

BlockRef BlockPool::take() {
  if (in_use_ >= limit_) return {};
  Block* block = free_;
  if (block != nullptr) {
    free_ = block->next_free_;
    --free_count_;
    block->references_ = 1;
  } else {
    void* memory = std::malloc(sizeof(Block) + kBlockBytes);
    CORE_CHECK(memory != nullptr);
    block = new (memory) Block(this, kBlockBytes);
  }
  ++in_use_;
  return BlockRef(block);
}

void BlockPool::give_back(Block* block) {
  --in_use_;
  if (free_count_ >= free_kept_) {
    std::free(block);
    return;
  }
  block->next_free_ = free_;
  free_ = block;
  ++free_count_;
}

}  // namespace corehttpd
