// Operations that are one request of the ring each.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "corehttpd/base/check.h"
#include "io/ring_loop.h"

namespace corehttpd::io {
namespace {

// The most that read(2) and write(2) move in one call; the ring's length field has 32 bits.
constexpr std::size_t kTransferMax = 0x7ffff000;
unsigned transfer(std::size_t length) {
  return static_cast<unsigned>(std::min(length, kTransferMax));
}

}  // namespace

void RingLoop::begin(Operation& operation) {
  // One that is under way would complete twice, the second time perhaps into freed memory.
  CORE_CHECK(!operation.pending_);
  operation.pending_ = true;
}

void RingLoop::send(int fd, std::span<const iovec> data, bool more, Operation& operation) {
  begin(operation);
  const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  if (data.size() <= 1) {
    if (data.empty()) return make_ready(operation, 0);
    io_uring_sqe& request = entry();
    io_uring_prep_send(&request, fd, data[0].iov_base, transfer(data[0].iov_len), flags);
    mark(request, &operation, kOperation);
    return;
  }
  if (messages_used_ == messages_.size()) flush();
  // The entry first: getting it may submit, after which the messages are used from the front again.
  io_uring_sqe& request = entry();
  // The kernel copies head and vectors while it takes the request off the queue
  // (IORING_FEAT_SUBMIT_STABLE), so that a message lives for one turn only and the same few stay in
  // the cache.
  Message& message = messages_[messages_used_++];
  const std::size_t count = std::min(data.size(), kVectorsMax);
  std::memcpy(message.vectors, data.data(), count * sizeof(iovec));
  message.head = {};
  message.head.msg_iov = message.vectors;
  message.head.msg_iovlen = count;
  io_uring_prep_sendmsg(&request, fd, &message.head, static_cast<unsigned>(flags));
  mark(request, &operation, kOperation);
}

void RingLoop::read(int file, void* into, std::size_t length, std::uint64_t offset,
                    Operation& operation) {
  begin(operation);
  io_uring_sqe& request = entry();
  io_uring_prep_read(&request, file, into, transfer(length), offset);
  mark(request, &operation, kOperation);
}

void RingLoop::write(int file, const void* from, std::size_t length, std::uint64_t offset,
                     Operation& operation) {
  begin(operation);
  io_uring_sqe& request = entry();
  io_uring_prep_write(&request, file, from, transfer(length), offset);
  mark(request, &operation, kOperation);
}

void RingLoop::open(const char* path, int flags, unsigned mode, Operation& operation) {
  begin(operation);
  io_uring_sqe& request = entry();
  io_uring_prep_openat(&request, AT_FDCWD, path, flags | O_CLOEXEC, mode);
  mark(request, &operation, kOperation);
}

void RingLoop::poll(int fd, unsigned poll_events, Operation& operation) {
  begin(operation);
  io_uring_sqe& request = entry();
  io_uring_prep_poll_add(&request, fd, poll_events);
  mark(request, &operation, kOperation);
}

void RingLoop::cancel(Operation& operation) {
  // One in the ready queue has its result already.
  if (!operation.pending_ || operation.linked()) return;
  if (operation.slot_ != nullptr) operation.slot_->cancelled = true;
  cancel_request(&operation, kOperation);
}

}  // namespace corehttpd::io
