// Bytes waiting in memory, in order: copied in at the end, taken out at the front as segments that
// share the blocks. Used for responses on their way to a client and for uploads on their way to an
// origin. Bounded by whoever appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "corehttpd/base/block.h"
#include "corehttpd/base/segment.h"

namespace corehttpd::upstream {

class BlockQueue {
 public:
  explicit BlockQueue(BlockPool& pool) : pool_(pool) {}
  void append(std::span<const std::byte> bytes);
  // Takes the next piece of at most bytes_max bytes; the queue must not be empty and bytes_max > 0.
  Segment take(std::size_t bytes_max);
  // The same bytes that take() would yield, left in the queue.
  Segment peek() const;
  // Drops bytes at the front; at most bytes().
  void drop(std::size_t count);
  std::uint64_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  void clear();

 private:
  struct Chunk {
    BlockRef block;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  BlockPool& pool_;
  std::vector<Chunk> chunks_;  // From first_ on; earlier ones are spent.
  std::size_t first_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace corehttpd::upstream
