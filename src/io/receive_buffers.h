// The worker's receive buffers, shared by all its sockets: the kernel takes one when data has come,
// so that idle connections own none.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace corehttpd::io {

class ReceiveBuffers {
 public:
  static constexpr int kGroup = 1;

  ReceiveBuffers() = default;
  ~ReceiveBuffers();
  ReceiveBuffers(const ReceiveBuffers&) = delete;
  ReceiveBuffers& operator=(const ReceiveBuffers&) = delete;

  // Maps and registers count (a power of two) buffers of bytes each. 0 or -errno.
  int set_up(io_uring& ring, unsigned count, std::size_t bytes);
  std::byte* data(unsigned id) { return memory_ + id * bytes_; }
  // Lends a buffer to the kernel (again).
  void give(unsigned id) {
    io_uring_buf_ring_add(ring_, data(id), static_cast<unsigned>(bytes_),
                          static_cast<std::uint16_t>(id), mask_, 0);
    io_uring_buf_ring_advance(ring_, 1);
  }
  // The kernel has run out: doubles the number lent, up to all.
  void grow();

 private:
  // The kernel goes round through all that are lent. Few of them stay in the CPU's cache and are
  // all the memory that is touched.
  static constexpr unsigned kLentAtFirst = 64;

  io_uring_buf_ring* ring_ = nullptr;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned count_ = 0;
  unsigned lent_ = 0;
  int mask_ = 0;
};

}  // namespace corehttpd::io
