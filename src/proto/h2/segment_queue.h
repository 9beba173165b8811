// Bytes waiting in order: a connection's output on its way to the socket, or a request body that
// nobody has asked for yet. Small pieces are copied together into blocks of the pool, so that many
// short frames leave as one vector; large body segments are kept by reference.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "corehttpd/base/segment.h"

namespace corehttpd::h2 {

class SegmentQueue {
 public:
  // Up to this length a copy costs less than a vector of its own in a gathered send.
  static constexpr std::size_t kCopyMax = 1024;

  explicit SegmentQueue(BlockPool& pool) : pool_(pool) {}

  // Copies bytes to the end. False when the pool's budget is spent; then only a part of them may be
  // here.
  [[nodiscard]] bool append_copy(std::span<const std::byte> bytes);
  // Memory segments only. Copies short ones, keeps a reference to others. False as above.
  [[nodiscard]] bool append(Segment&& segment);

  bool empty() const { return head_ == segments_.size(); }
  std::uint64_t bytes() const { return appended_ - consumed_; }
  std::size_t segments() const { return segments_.size() - head_; }
  // Everything ever appended and taken away: positions in the stream of bytes.
  std::uint64_t appended() const { return appended_; }
  std::uint64_t consumed() const { return consumed_; }
  // Not empty() only.
  const Segment& front() const { return segments_[head_]; }
  // Fills out with as many leading segments as fit; returns how many.
  std::size_t gather(std::span<iovec> out) const;
  // count <= bytes().
  void consume(std::uint64_t count);
  // Forgets everything, counting it as consumed.
  void clear() { consume(bytes()); }
  // Gives up what an empty queue keeps for speed.
  void release_storage();

 private:
  BlockPool& pool_;
  std::vector<Segment> segments_;
  std::size_t head_ = 0;
  BlockRef block_;  // Where copies go; also referenced by the segments that point into it.
  std::size_t block_used_ = 0;
  std::uint64_t appended_ = 0;
  std::uint64_t consumed_ = 0;
};

}  // namespace corehttpd::h2
