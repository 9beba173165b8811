// The io_uring loop. Split by responsibility: ring_loop.cc (set-up, the turn, wake-up),
// ring_receive.cc (multishot receives and their buffers), ring_operations.cc (everything that is
// one request), ring_steps.cc (what takes several: accept, connect, send_file).
#pragma once

#include <liburing.h>

#include <memory>
#include <vector>

#include "corehttpd/io/loop.h"
#include "io/offload.h"
#include "io/receive_buffers.h"
#include "io/timer_wheel.h"

namespace corehttpd::io {

// The memory of an operation that is more than one request, or whose request points to memory of
// ours.
struct OperationSlot {
  enum class Kind : std::uint8_t { kAccept, kConnect, kSendFile };
  // What is under way, and so what the next completion means.
  enum class Step : std::uint8_t {
    kFirst,    // The request itself.
    kRoom,     // A poll for the socket being ready.
    kWarming,  // A read that brings the file's pages into memory.
  };
  OperationSlot* next_free;
  Kind kind;
  Step step;
  bool cancelled;
  bool warm;  // send_file: the window's pages are in memory, as far as we can tell.
  int socket;
  int file;
  std::uint32_t length;
  socklen_t address_bytes;
  std::uint64_t offset;
  sockaddr_storage* address;
};

class RingLoop final : public Loop {
 public:
  explicit RingLoop(const RingOptions& options);
  ~RingLoop() override;
  // 0 or -errno; nothing else may be called after a failure.
  int set_up(const RingOptions& options);

  void accept(int listener, sockaddr_storage& peer, Operation& operation) override;
  void receive(int fd, ReceiveState& state) override;
  void receive_stop(ReceiveState& state) override;
  void receive_idle(ReceiveState& state) override;
  void send(int fd, std::span<const iovec> data, bool more, Operation& operation) override;
  void send_file(int socket, int file, std::uint64_t offset, std::size_t length,
                 Operation& operation) override;
  void connect(int fd, const sockaddr* address, socklen_t length, Operation& operation) override;
  void read(int file, void* into, std::size_t length, std::uint64_t offset,
            Operation& operation) override;
  void write(int file, const void* from, std::size_t length, std::uint64_t offset,
             Operation& operation) override;
  void open(const char* path, int flags, unsigned mode, Operation& operation) override;
  void poll(int fd, unsigned poll_events, Operation& operation) override;
  void cancel(Operation& operation) override;
  void schedule(Timer& timer, Milliseconds after_ms) override;
  void cancel(Timer& timer) override { wheel_.cancel(timer); }
  bool offload(OffloadTask& task) override;
  bool offload_file_work(OffloadTask& task) override;
  void run_once() override;
  void wake() override;

 private:
  // The low bits of a request's user_data say what its address is; 0 alone is nobody's.
  static constexpr std::uint64_t kTagMask = 7;
  enum Tag : std::uint64_t { kOperation = 0, kReceive = 1, kReceivePoll = 2, kWake = 3 };
  static_assert(alignof(Operation) > kTagMask && alignof(ReceiveState) > kTagMask);
  // What sendmsg needs until the kernel has seen the request.
  struct Message {
    msghdr head;
    iovec vectors[kVectorsMax];
  };
  static constexpr unsigned kCompletionsPerTurn = 256;
  static constexpr unsigned kCompletionsPerBatch = 16;
  static constexpr std::size_t kScratchBytes = 256 * 1024;
  static constexpr int kWaiting = INT32_MIN;  // A step has not ended the operation.

  // ring_loop.cc
  int set_up_ring(const RingOptions& options);
  bool work_waits();
  void wait();
  void run_completions();
  void run_ready();
  void dispatch(std::uint64_t user_data, int result, unsigned flags);
  void flush();
  io_uring_sqe& entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) [[unlikely]] {
      flush();
      entry = io_uring_get_sqe(&ring_);
    }
    return *entry;
  }
  static void mark(io_uring_sqe& entry, const void* address, Tag tag) {
    entry.user_data = reinterpret_cast<std::uintptr_t>(address) | tag;
  }
  void cancel_request(const void* address, Tag tag);
  void arm_wake();
  void on_wake();

  // ring_receive.cc
  void arm(ReceiveState& state);
  void on_receive(ReceiveState& state, int result, unsigned flags);
  void on_receive_poll(ReceiveState& state, int result);
  void deliver(ReceiveState& state, std::span<const std::byte> data);
  void settle(ReceiveState& state);
  void end(ReceiveState& state, int result);
  bool receive_without_buffer(ReceiveState& state);

  // ring_operations.cc
  static void begin(Operation& operation);
  static void complete(Operation& operation, int result) {
    operation.pending_ = false;
    operation.complete_(operation, result);
  }
  void make_ready(Operation& operation, int result) {
    operation.result_ = result;
    ready_.push_back(operation);
  }

  // ring_steps.cc
  OperationSlot& take_slot(Operation& operation, OperationSlot::Kind kind);
  void drop_slot(Operation& operation);
  void on_step(Operation& operation, int result);
  int continue_accept(Operation& operation, int result);
  int continue_connect(OperationSlot& slot, int result);
  int continue_send_file(Operation& operation, int result);
  int try_send_file(Operation& operation);
  void warm(Operation& operation);
  void await(Operation& operation, unsigned poll_events);

  io_uring ring_{};
  // To wait before the first attempt where the kernel (6.10) can: between two connections the
  // backlog is mostly empty, and an attempt in vain cost 5 % of a short connection.
  std::uint16_t accept_flags_ = 0;
  bool ring_made_ = false;
  int event_fd_ = -1;
  TimerWheel wheel_;
  std::vector<Message>
      messages_;  // One per submission entry; used from the front, all free again after a submit.
  std::size_t messages_used_ = 0;
  List<Operation, ReadyTag> ready_;         // Completed without the kernel's queue.
  List<ReceiveState, ReadyTag> unsettled_;  // Receives to look at before the loop waits again.
  ReceiveBuffers buffers_;
  OperationSlot* free_slots_ = nullptr;
  std::vector<std::unique_ptr<OperationSlot[]>> slots_;
  std::unique_ptr<std::byte[]> scratch_;  // For receives when the kernel has run out of buffers.
  // What warming reads write to, at any time and from kernel threads. Nothing ever reads it, and
  // nothing else may be put here.
  std::unique_ptr<std::byte[]> sink_;
  Offload offload_;
  Offload file_work_;
};

}  // namespace corehttpd::io
