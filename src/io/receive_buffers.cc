#include "io/receive_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace corehttpd::io {

int ReceiveBuffers::set_up(io_uring& ring, unsigned count, std::size_t bytes) {
  count_ = count;
  bytes_ = bytes;
  mask_ = io_uring_buf_ring_mask(count);
  // liburing 2.3 has no helper for the ring's own memory; page alignment is what the kernel asks
  // for.
  void* entries = mmap(nullptr, count * sizeof(io_uring_buf), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (entries == MAP_FAILED) return -errno;
  ring_ = static_cast<io_uring_buf_ring*>(entries);
  void* memory = mmap(nullptr, count * bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  memory_ = static_cast<std::byte*>(memory);
  io_uring_buf_ring_init(ring_);
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
  registration.ring_entries = count;
  registration.bgid = kGroup;
  const int result = io_uring_register_buf_ring(&ring, &registration, 0);
  if (result < 0) return result;
  lent_ = std::min(count_, kLentAtFirst);
  for (unsigned id = 0; id < lent_; ++id) give(id);
  return 0;
}

ReceiveBuffers::~ReceiveBuffers() {
  if (memory_ != nullptr) munmap(memory_, count_ * bytes_);
  if (ring_ != nullptr) munmap(ring_, count_ * sizeof(io_uring_buf));
}

void ReceiveBuffers::grow() {
  const unsigned lent = std::min(count_, lent_ * 2);
  for (; lent_ < lent; ++lent_) give(lent_);
}

}  // namespace corehttpd::io
