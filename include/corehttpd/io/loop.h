// The event loop: one per worker, everything above it sees completions only. The ring
// implementation is the only user of liburing; a simulated one drives tests. Nothing completes
// inside the call that starts it: completions are collected, then run.
//
// Operations are embedded in the object that waits. The object must stay alive and the operation's
// memory in place until it has completed, also after cancel(): cancelling asks, the completion
// (usually -ECANCELED) ends it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "corehttpd/base/block.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/error.h"
#include "corehttpd/base/list.h"
#include "corehttpd/base/turn.h"

namespace corehttpd::io {

class Loop;

struct ReadyTag {};
// The ring loop's: what a request needs beyond its submission entry.
struct OperationSlot;

// One outstanding request to the kernel. result: >= 0 as the system call's, else -errno.
class Operation : public ListHook<ReadyTag> {
 public:
  // May start the operation again, or destroy it.
  using Complete = void (*)(Operation&, int result);
  explicit Operation(Complete complete) : complete_(complete) {}
  bool pending() const { return pending_; }

 private:
  friend class RingLoop;
  friend class SimLoop;
  friend class Layer;
  Complete complete_;
  OperationSlot* slot_ = nullptr;
  int result_ = 0;
  bool pending_ = false;
};

// Receives again and again until stopped, ended or failed. Data arrives in the loop's buffers and
// is valid only during the call.
class Receiver {
 public:
  // data empty: the peer closed its side; the receiver is no longer armed.
  virtual void on_received(std::span<const std::byte> data) = 0;
  // The receive failed (ECONNRESET…); no longer armed.
  virtual void on_receive_error(int errno_value) = 0;

 protected:
  ~Receiver() = default;
};

// Opaque state of one armed receive, embedded beside the Receiver. Same lifetime rule as Operation:
// may be destroyed, and the descriptor closed, only when idle() (closing an armed descriptor does
// not disarm it). receive_stop() leads to stopped.
//
// Between receive_stop() and the next receive() the Receiver is not called. Nothing is lost
// meanwhile: what the kernel had taken off the socket before it let go is kept here and delivered
// first after the next receive(). So stopping serves back-pressure as well as closing.
class ReceiveState : public ListHook<ReadyTag> {
 public:
  // Called once after each receive_stop(), when the kernel has let go (from the loop, never inside
  // receive_stop()); until then no destruction. A receive() meanwhile withdraws the stop, which is
  // then not reported. May be nullptr. May destroy the state.
  using Stopped = void (*)(ReceiveState&);
  ReceiveState(Receiver& receiver, Stopped stopped) : receiver_(receiver), stopped_(stopped) {}
  ~ReceiveState();
  bool idle() const { return phase_ == Phase::kOff && !linked(); }
  bool armed() const { return wish_ != Wish::kNothing; }
  // What was kept after a stop, for another reader of the descriptor than the receiver (a
  // connection handed to another protocol): take is called with each piece, oldest first, and it is
  // forgotten. Only when idle().
  using Take = void (*)(void* context, std::span<const std::byte> data);
  void take_parked(void* context, Take take);
  // The owner, for stopped.
  Receiver& receiver() const { return receiver_; }

 private:
  friend class RingLoop;
  friend class SimLoop;
  friend class Layer;
  struct Parked;
  // What is under way.
  enum class Phase : std::uint8_t {
    kOff,        // Nothing.
    kReceiving,  // The kernel holds a multishot receive.
    kPolling,  // The kernel holds a one-shot poll: the state of connections that have been idle for
               // long.
    kBusy,     // The loop is delivering; what follows is decided when the receiver returns.
  };
  // What the owner wants; phase_ follows it as fast as the kernel lets go.
  enum class Wish : std::uint8_t { kNothing, kReceive, kIdle };
  static constexpr int kNoEnd = 1;
  void park(std::span<const std::byte> data);

  Receiver& receiver_;
  Stopped stopped_;
  Parked* parked_ = nullptr;  // Oldest first.
  int fd_ = -1;
  int end_ = kNoEnd;  // The receive's last result (0 or -errno) when it came after receive_stop().
  Phase phase_ = Phase::kOff;
  Wish wish_ = Wish::kNothing;
  // The first receive is a single one: a connection that ends with its first request then leaves
  // nothing to be cancelled.
  bool received_before_ = false;
  bool cancelling_ = false;  // A cancel of phase_ is on its way.
  bool stop_due_ = false;    // stopped_ is to be called.
};

struct TimerTag {};

// One-shot timer of the worker's wheel. Resolution 1 ms, counted from the clock of the turn that
// schedules it; fires not before its time. Timers of one turn fire in the order of their times.
// Destroying it cancels it.
class Timer : public ListHook<TimerTag> {
 public:
  using Fire = void (*)(Timer&);
  explicit Timer(Fire fire) : fire_(fire) {}
  bool scheduled() const { return linked(); }
  Milliseconds due_ms() const { return due_ms_; }

 private:
  friend class TimerWheel;
  Fire fire_;
  Milliseconds due_ms_ = 0;
  Milliseconds filed_ms_ = 0;  // The time under which the wheel has filed it: at or before due_ms_.
};

// Work for the Offload threads: run() there, then done() on the loop. Nothing of the worker may
// be touched in run(). Must stay alive until done(); it cannot be cancelled.
class OffloadTask : public ListHook<ReadyTag> {
 public:
  virtual void run() noexcept = 0;
  virtual void done() = 0;

 protected:
  ~OffloadTask() = default;
};

class Loop {
 public:
  virtual ~Loop() = default;

  // result: the accepted descriptor (non-blocking, close-on-exec). Single-shot. peer is filled in.
  virtual void accept(int listener, sockaddr_storage& peer, Operation& operation) = 0;
  // Without effect on an armed state. fd must stay the same while the state is not idle.
  virtual void receive(int fd, ReceiveState& state) = 0;
  virtual void receive_stop(ReceiveState& state) = 0;
  // Gives up kernel memory: waits with a one-shot poll, then receives as before. For connections
  // idle for long; without effect unless armed.
  virtual void receive_idle(ReceiveState& state) = 0;
  // result: bytes sent, possibly fewer than given. The iovecs are copied, up to kVectorsMax; what
  // they point to is not. more: further data follows at once (MSG_MORE). A vanished peer gives
  // -EPIPE or -ECONNRESET, never SIGPIPE.
  static constexpr std::size_t kVectorsMax = 16;
  virtual void send(int fd, std::span<const iovec> data, bool more, Operation& operation) = 0;
  // sendfile(2) of a window of at most length bytes, waiting for room if there is none; result:
  // bytes sent, at most kFileWindowBytes. Cold pages do not block the loop. 0: the file is not
  // longer than offset (truncated meanwhile). The socket must be non-blocking, no other send may be
  // under way on it, and the process must ignore SIGPIPE.
  static constexpr std::size_t kFileWindowBytes = 512 * 1024;
  virtual void send_file(int socket, int file, std::uint64_t offset, std::size_t length,
                         Operation& operation) = 0;
  // fd must be non-blocking; the address is not needed after the call. AF_UNIX with a full backlog
  // completes with -EAGAIN at once.
  virtual void connect(int fd, const sockaddr* address, socklen_t length, Operation& operation) = 0;
  virtual void read(int file, void* into, std::size_t length, std::uint64_t offset,
                    Operation& operation) = 0;
  // offset UINT64_MAX: at the descriptor's position, which O_APPEND makes an append.
  virtual void write(int file, const void* from, std::size_t length, std::uint64_t offset,
                     Operation& operation) = 0;
  // result: the descriptor, close-on-exec. path must stay until completion.
  virtual void open(const char* path, int flags, unsigned mode, Operation& operation) = 0;
  // One-shot poll(2); result: the events that hold.
  virtual void poll(int fd, unsigned poll_events, Operation& operation) = 0;
  // Without effect unless pending. The operation may still complete with its own result.
  virtual void cancel(Operation& operation) = 0;

  // Scheduling a scheduled timer moves it, which is cheap when it moves to a later time. after_ms <
  // 0 counts as 0.
  virtual void schedule(Timer& timer, Milliseconds after_ms) = 0;
  virtual void cancel(Timer& timer) = 0;
  // False when the bounded queue is full: the caller answers 503 or does without.
  virtual bool offload(OffloadTask& task) = 0;
  // The same for calls on files, which last as long as a disk or a file server pleases: threads of
  // their own, up to kFileThreadsMax, so that neither what computes nor each other's disks wait for
  // them. Tasks still running when the loop is destroyed are left to the end of the process.
  static constexpr std::size_t kFileThreadsMax = 32;
  virtual bool offload_file_work(OffloadTask& task) { return offload(task); }

  // One submit-and-wait, the completions (up to a budget), the timers, the turn queue.
  virtual void run_once() = 0;
  void run() {
    stopping_ = false;
    while (!stopping_) run_once();
  }
  void stop() { stopping_ = true; }
  // Makes a blocked run_once() return. From any thread and from signal handlers.
  virtual void wake() = 0;

  Clock& clock() { return clock_; }
  TurnQueue& turn() { return turn_; }
  BlockPool& blocks() { return blocks_; }

 protected:
  // blocks_limit: the worker's budget of blocks.
  explicit Loop(std::size_t blocks_limit = SIZE_MAX) : blocks_(blocks_limit) {}
  Clock clock_;
  TurnQueue turn_;
  BlockPool blocks_;
  bool stopping_ = false;
};

struct RingOptions {
  unsigned submission_entries = 1024;
  unsigned receive_buffers =
      512;  // Power of two, at most 32768. Memory is touched only as load needs it.
  std::size_t receive_buffer_bytes = 8192;  // A multiple of 64.
  std::size_t blocks_limit = SIZE_MAX;      // Of Loop::blocks().
};
// The io_uring loop; create it in the worker, after privileges are dropped. On failure detail is
// the errno; explain_ring_failure() turns it into the one clear message with cause and remedy.
Result<std::unique_ptr<Loop>> make_ring_loop(const RingOptions& options);
const char* explain_ring_failure(int errno_value);

}  // namespace corehttpd::io
