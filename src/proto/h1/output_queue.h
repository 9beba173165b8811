// What a response has produced and the socket has not taken yet. A short array: the queue is filled
// only while it has room, which is the back-pressure on body sources.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "corehttpd/base/check.h"
#include "corehttpd/base/segment.h"

namespace corehttpd::h1 {

class OutputQueue {
 public:
  static constexpr std::size_t kSegmentsMax = 16;

  bool empty() const { return first_ == end_; }
  std::size_t size() const { return end_ - first_; }
  std::size_t room() const { return kSegmentsMax - size(); }
  // Of memory segments; files cost nothing while they wait.
  std::size_t memory_bytes() const { return memory_bytes_; }
  Segment& front() { return items_[first_]; }
  std::span<Segment> segments() { return {items_.data() + first_, size()}; }

  void push(Segment&& segment) {
    CORE_DCHECK(room() != 0);
    if (segment.length() == 0) return;
    if (end_ == kSegmentsMax) compact();
    if (segment.in_memory()) memory_bytes_ += segment.length();
    items_[end_++] = std::move(segment);
  }
  // count bytes at the front are gone, at most what the queue holds; returns how many of count are
  // left for the next queue.
  std::size_t consume(std::size_t count) {
    while (count != 0 && !empty()) {
      Segment& segment = front();
      const std::size_t part = count < segment.length() ? count : segment.length();
      if (segment.in_memory()) memory_bytes_ -= part;
      count -= part;
      if (part < segment.length()) {
        segment.remove_prefix(part);
      } else {
        items_[first_++] = Segment();
      }
    }
    if (empty()) first_ = end_ = 0;
    return count;
  }

 private:
  void compact() {
    for (std::size_t i = 0; i < size(); ++i) items_[i] = std::move(items_[first_ + i]);
    end_ = static_cast<std::uint8_t>(size());
    first_ = 0;
  }

  std::array<Segment, kSegmentsMax> items_;
  std::size_t memory_bytes_ = 0;
  std::uint8_t first_ = 0;
  std::uint8_t end_ = 0;
};

}  // namespace corehttpd::h1
