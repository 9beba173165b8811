// Received bytes that nobody could use yet: the beginning of a head, pipelined requests, a body
// that is not wanted yet. Contiguous, so that heads are parsed in place. Owns a block only while it
// holds bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "corehttpd/base/block.h"

namespace corehttpd::h1 {

class InputBuffer {
 public:
  bool empty() const { return begin_ == end_; }
  std::span<const std::byte> view() const {
    return block_ ? std::span<const std::byte>(block_->data() + begin_, end_ - begin_)
                  : std::span<const std::byte>();
  }
  // False when the worker's budget of blocks is spent. How much is kept is the caller's to bound.
  bool append(std::span<const std::byte> bytes, BlockPool& blocks);
  void consume(std::size_t count);
  void clear();

 private:
  BlockRef block_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace corehttpd::h1
