// Operations that take several requests, or none: accept, connect, send_file. Their slot says which
// step is under way.
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"
#include "io/ring_loop.h"

namespace corehttpd::io {
namespace {

enum class Pages { kWarm, kCold, kBehindEnd };

// Would reading the byte at offset wait for the disk? Where the file system cannot say, we assume
// so.
Pages probe(int file, std::uint64_t offset) {
  char byte = 0;
  const iovec vector{&byte, 1};
  const ssize_t result = preadv2(file, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (result == 0) return Pages::kBehindEnd;
  if (result > 0) return Pages::kWarm;
  return errno == EAGAIN || errno == EOPNOTSUPP
             ? Pages::kCold
             : Pages::kWarm;  // An error is sendfile's to report.
}

}  // namespace

OperationSlot& RingLoop::take_slot(Operation& operation, OperationSlot::Kind kind) {
  if (free_slots_ == nullptr) {
    constexpr std::size_t kSlotsPerChunk = 64;
    slots_.push_back(std::make_unique<OperationSlot[]>(kSlotsPerChunk));
    for (std::size_t i = 0; i < kSlotsPerChunk; ++i) {
      OperationSlot& slot = slots_.back()[i];
      slot.next_free = free_slots_;
      free_slots_ = &slot;
    }
  }
  OperationSlot& slot = *free_slots_;
  free_slots_ = slot.next_free;
  slot = OperationSlot{.kind = kind};
  operation.slot_ = &slot;
  return slot;
}

void RingLoop::drop_slot(Operation& operation) {
  operation.slot_->next_free = free_slots_;
  free_slots_ = operation.slot_;
  operation.slot_ = nullptr;
}

void RingLoop::on_step(Operation& operation, int result) {
  int outcome = result;
  switch (operation.slot_->kind) {
    case OperationSlot::Kind::kAccept:
      outcome = continue_accept(operation, result);
      break;
    case OperationSlot::Kind::kConnect:
      outcome = continue_connect(*operation.slot_, result);
      break;
    case OperationSlot::Kind::kSendFile:
      outcome = continue_send_file(operation, result);
      break;
  }
  if (outcome == kWaiting) return;
  drop_slot(operation);
  complete(operation, outcome);
}

// Polls the slot's socket; the answer is the operation's next step.
void RingLoop::await(Operation& operation, unsigned poll_events) {
  OperationSlot& slot = *operation.slot_;
  slot.step = OperationSlot::Step::kRoom;
  io_uring_sqe& request = entry();
  io_uring_prep_poll_add(&request, slot.socket, poll_events);
  mark(request, &operation, kOperation);
}

// Single-shot: a multishot accept on a shared listener keeps its place at the head of the queue,
// and one worker gets everything.
void RingLoop::accept(int listener, sockaddr_storage& peer, Operation& operation) {
  begin(operation);
  OperationSlot& slot = take_slot(operation, OperationSlot::Kind::kAccept);
  slot.socket = listener;
  slot.address = &peer;
  continue_accept(operation, 0);
}

int RingLoop::continue_accept(Operation& operation, int result) {
  OperationSlot& slot = *operation.slot_;
  const bool begins = slot.address_bytes == 0;
  if (!begins && slot.step == OperationSlot::Step::kFirst) {
    // Kernels that take the listener's O_NONBLOCK literally say -EAGAIN instead of waiting.
    if (result != -EAGAIN || slot.cancelled) return result;
    await(operation, POLLIN);
    return kWaiting;
  }
  if (result < 0) return result;
  if (slot.cancelled) return -ECANCELED;
  *slot.address = {};
  slot.address_bytes = sizeof *slot.address;
  slot.step = OperationSlot::Step::kFirst;
  io_uring_sqe& request = entry();
  io_uring_prep_accept(&request, slot.socket, reinterpret_cast<sockaddr*>(slot.address),
                       &slot.address_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
  request.ioprio = accept_flags_;
  mark(request, &operation, kOperation);
  return kWaiting;
}

// A plain call: the ring would block a kernel thread on a unix socket whose backlog is full.
void RingLoop::connect(int fd, const sockaddr* address, socklen_t length, Operation& operation) {
  begin(operation);
  if (::connect(fd, address, length) == 0) return make_ready(operation, 0);
  // An interrupted connect goes on by itself, like one in progress.
  if (errno != EINPROGRESS && errno != EINTR) return make_ready(operation, -errno);
  take_slot(operation, OperationSlot::Kind::kConnect).socket = fd;
  await(operation, POLLOUT);
}

int RingLoop::continue_connect(OperationSlot& slot, int result) {
  if (result < 0) return result;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(slot.socket, SOL_SOCKET, SO_ERROR, &error, &length) < 0) return -errno;
  return -error;
}

// sendfile(2) by ourselves: the ring has no such operation, and splicing costs four times as much
// because it always takes a kernel thread.
void RingLoop::send_file(int socket, int file, std::uint64_t offset, std::size_t length,
                         Operation& operation) {
  begin(operation);
  OperationSlot& slot = take_slot(operation, OperationSlot::Kind::kSendFile);
  slot.socket = socket;
  slot.file = file;
  slot.offset = offset;
  slot.length = static_cast<std::uint32_t>(std::min(length, kFileWindowBytes));
  const int outcome = slot.length == 0 ? 0 : try_send_file(operation);
  if (outcome != kWaiting) make_ready(operation, outcome);
}

int RingLoop::try_send_file(Operation& operation) {
  OperationSlot& slot = *operation.slot_;
  if (!slot.warm) {
    const Pages first = probe(slot.file, slot.offset);
    if (first == Pages::kBehindEnd) return 0;
    if (first == Pages::kCold || probe(slot.file, slot.offset + slot.length - 1) == Pages::kCold) {
      warm(operation);
      return kWaiting;
    }
    slot.warm = true;
  }
  while (true) {
    off_t offset = static_cast<off_t>(slot.offset);
    const ssize_t sent = sendfile(slot.socket, slot.file, &offset, slot.length);
    if (sent >= 0) return static_cast<int>(sent);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return -errno;
    await(operation, POLLOUT);
    return kWaiting;
  }
}

// Reads the window through the ring for its side effect on the page cache. Nobody looks at the
// bytes, so that all such reads share one buffer.
void RingLoop::warm(Operation& operation) {
  OperationSlot& slot = *operation.slot_;
  slot.step = OperationSlot::Step::kWarming;
  io_uring_sqe& request = entry();
  io_uring_prep_read(&request, slot.file, sink_.get(),
                     std::min<unsigned>(slot.length, kScratchBytes), slot.offset);
  mark(request, &operation, kOperation);
}

int RingLoop::continue_send_file(Operation& operation, int result) {
  OperationSlot& slot = *operation.slot_;
  if (slot.cancelled) return -ECANCELED;
  if (result < 0 && result != -EAGAIN && result != -EINTR) return result;
  if (slot.step == OperationSlot::Step::kWarming) {
    if (result == 0) return 0;
    // As much as has come; after an interrupted read sendfile may wait, which is better than asking
    // for ever.
    if (result > 0) slot.length = static_cast<std::uint32_t>(result);
    slot.warm = true;
  }
  return try_send_file(operation);
}

}  // namespace corehttpd::io
