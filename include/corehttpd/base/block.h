// Refcounted buffers. BlockPool hands out blocks of one size and keeps a bounded number of free
// ones; Block::allocate makes one of any size from malloc (cached file contents). Single-threaded:
// counts are plain integers, blocks never leave their worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace corehttpd {

class BlockPool;
class BlockRef;

class Block {
 public:
  // A block outside any pool. Aborts when malloc fails.
  static BlockRef allocate(std::size_t capacity);
  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(this + 1); }
  std::size_t capacity() const { return capacity_; }
  bool unique() const { return references_ == 1; }
  void add_reference() { ++references_; }
  void release() {
    if (--references_ == 0) destroy();
  }

 private:
  friend class BlockPool;
  Block(BlockPool* pool, std::uint32_t capacity) : pool_(pool), capacity_(capacity) {}
  void destroy();

  BlockPool* pool_;  // nullptr: from malloc alone.
  Block* next_free_ = nullptr;
  std::uint32_t references_ = 1;
  std::uint32_t capacity_;
};

class BlockRef {
 public:
  BlockRef() = default;
  // Takes over one reference.
  explicit BlockRef(Block* block) : block_(block) {}
  BlockRef(const BlockRef& other) : block_(other.block_) {
    if (block_ != nullptr) block_->add_reference();
  }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    if (block_ != nullptr) block_->release();
  }
  explicit operator bool() const { return block_ != nullptr; }
  Block* get() const { return block_; }
  Block* operator->() const { return block_; }
  Block& operator*() const { return *block_; }
  Block* release() { return std::exchange(block_, nullptr); }
  void reset() { BlockRef().swap(*this); }
  void swap(BlockRef& other) { std::swap(block_, other.block_); }

 private:
  Block* block_ = nullptr;
};

class BlockPool {
 public:
  static constexpr std::size_t kBlockBytes = 16 * 1024 - sizeof(Block);
  // limit: blocks out at one time (worker's budget); free_kept: how many unused ones are kept.
  explicit BlockPool(std::size_t limit = SIZE_MAX, std::size_t free_kept = 256)
      : limit_(limit), free_kept_(free_kept) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();
  // An empty reference when the budget is spent.
  BlockRef take();
  std::size_t in_use() const { return in_use_; }
  std::size_t limit() const { return limit_; }

 private:
  friend class Block;
  void give_back(Block* block);
  Block* free_ = nullptr;
  std::size_t free_count_ = 0;
  std::size_t in_use_ = 0;
  std::size_t limit_;
  std::size_t free_kept_;
};

}  // namespace corehttpd
