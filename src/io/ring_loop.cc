#include "io/ring_loop.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"

namespace corehttpd::io {

RingLoop::RingLoop(const RingOptions& options)
    : Loop(options.blocks_limit),
      wheel_(clock_.now_ms()),
      scratch_(new std::byte[kScratchBytes]),
      sink_(new std::byte[kScratchBytes]),
      offload_([](void* self) { static_cast<RingLoop*>(self)->wake(); }, this,
               {.niceness = Offload::kComputingNiceness}),
      file_work_([](void* self) { static_cast<RingLoop*>(self)->wake(); }, this,
                 {.threads = kFileThreadsMax, .patient = false}) {}

RingLoop::~RingLoop() {
  // The kernel lets go of what is still armed by itself, though not at once: a worker that ends
  // leaves that to its exit.
  if (ring_made_) io_uring_queue_exit(&ring_);
  if (event_fd_ >= 0) ::close(event_fd_);
}

int RingLoop::set_up_ring(const RingOptions& options) {
  // Measured: the flags together are worth 18 % of the CPU per request. DEFER_TASKRUN is of
  // Linux 6.1, the others of 6.0, and multishot receives need 6.0 anyway.
  constexpr unsigned kBase = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN |
                             IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
  int result = -EINVAL;
  for (unsigned flags : {kBase | IORING_SETUP_DEFER_TASKRUN, kBase}) {
    io_uring_params parameters{};
    parameters.flags = flags;
    parameters.cq_entries = options.submission_entries * 8;
    result = io_uring_queue_init_params(options.submission_entries, &ring_, &parameters);
    if (result == 0) {
      messages_.resize(parameters.sq_entries);
      break;
    }
    if (result != -EINVAL) break;
  }
  if (result < 0) return result;
  ring_made_ = true;
  // Of the same release as the flag for accept, which has no feature bit of its own; both are newer
  // than Debian 12's headers.
  constexpr unsigned kFeatureRecvSendBundle = 1U << 14;
  constexpr std::uint16_t kAcceptPollFirst = 1U << 2;
  if ((ring_.features & kFeatureRecvSendBundle) != 0) accept_flags_ = kAcceptPollFirst;
  // Saves the kernel a look-up per call; without it everything works as well.
  (void)io_uring_register_ring_fd(&ring_);
  return 0;
}

int RingLoop::set_up(const RingOptions& options) {
  int result = set_up_ring(options);
  if (result < 0) return result;
  result = buffers_.set_up(ring_, options.receive_buffers, options.receive_buffer_bytes);
  if (result < 0) return result;
  event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd_ < 0) return -errno;
  arm_wake();
  return 0;
}

void RingLoop::wake() {
  // Async-signal-safe: one write, errno kept. A full counter (EAGAIN) means that the loop is woken
  // already.
  const int saved = errno;
  const std::uint64_t one = 1;
  while (::write(event_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = saved;
}

void RingLoop::arm_wake() {
  io_uring_sqe& request = entry();
  io_uring_prep_poll_add(&request, event_fd_, POLLIN);
  mark(request, this, kWake);
}

void RingLoop::on_wake() {
  std::uint64_t count = 0;
  // Emptied before the tasks are taken, so that one that finishes in between wakes again.
  while (::read(event_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  arm_wake();
  List<OffloadTask, ReadyTag> finished;
  offload_.take_done(finished);
  file_work_.take_done(finished);
  while (OffloadTask* task = finished.pop_front()) task->done();
}

bool RingLoop::offload(OffloadTask& task) { return offload_.submit(task); }
bool RingLoop::offload_file_work(OffloadTask& task) { return file_work_.submit(task); }

void RingLoop::schedule(Timer& timer, Milliseconds after_ms) {
  wheel_.schedule(timer, clock_.now_ms() + std::max<Milliseconds>(after_ms, 0));
}

void RingLoop::run_once() {
  wait();
  clock_.update();
  run_completions();
  run_ready();
  wheel_.advance(clock_.now_ms());
  turn_.run();
}

bool RingLoop::work_waits() {
  return !ready_.empty() || !unsettled_.empty() || !turn_.empty() || io_uring_cq_ready(&ring_) != 0;
}

void RingLoop::wait() {
  int result = 0;
  const Milliseconds next = wheel_.next();
  const std::int64_t timeout_us =
      next == TimerWheel::kNever ? INT64_MAX : next * 1000 - clock_.now_us();
  if (timeout_us <= 0 || work_waits()) {
    // Also without anything to submit: under DEFER_TASKRUN completions appear only when asked for.
    result = io_uring_submit_and_get_events(&ring_);
  } else {
    __kernel_timespec timeout{.tv_sec = timeout_us / 1'000'000,
                              .tv_nsec = timeout_us % 1'000'000 * 1000};
    io_uring_cqe* first = nullptr;
    result = io_uring_submit_and_wait_timeout(
        &ring_, &first, 1, next == TimerWheel::kNever ? nullptr : &timeout, nullptr);
  }
  if (io_uring_sq_ready(&ring_) == 0) messages_used_ = 0;
  // Short of kernel memory, interrupted or timed out: the turn goes on with what there is, the next
  // one submits the rest. Anything else (a lost completion is -EBADR) leaves operations that would
  // never end.
  CORE_CHECK(result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN ||
             result == -EBUSY || result == -ENOMEM);
}

void RingLoop::flush() {
  // The kernel refuses only when it has no memory for a request, which passes or else is an
  // allocation failing under the budget.
  constexpr int kAttempts = 10'000;
  for (int attempt = 0; io_uring_sq_ready(&ring_) != 0; ++attempt) {
    CORE_CHECK(attempt < kAttempts);
    if (attempt != 0) sched_yield();
    io_uring_submit_and_get_events(&ring_);
  }
  messages_used_ = 0;
}

void RingLoop::run_completions() {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* completion = nullptr;
  // The entries stay ours until the queue is advanced behind the loop; a handler that fills the
  // submission queue flushes it, which only appends.
  io_uring_for_each_cqe(&ring_, head, completion) {
    if (count == kCompletionsPerTurn) break;
    ++count;
    dispatch(completion->user_data, completion->res, completion->flags);
    // A few requests' memory fits into the processor's caches, that of a whole turn's does not.
    if (count % kCompletionsPerBatch == 0) turn_.run();
  }
  io_uring_cq_advance(&ring_, count);
}

void RingLoop::dispatch(std::uint64_t user_data, int result, unsigned flags) {
  void* address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(user_data & ~kTagMask));
  switch (user_data & kTagMask) {
    case kOperation:
      // Nobody's are the cancellations that came too late.
      if (address != nullptr) {
        Operation& operation = *static_cast<Operation*>(address);
        if (operation.slot_ == nullptr) {
          complete(operation, result);
        } else {
          on_step(operation, result);
        }
      }
      break;
    case kReceive:
      on_receive(*static_cast<ReceiveState*>(address), result, flags);
      break;
    case kReceivePoll:
      on_receive_poll(*static_cast<ReceiveState*>(address), result);
      break;
    default:
      on_wake();
      break;
  }
}

void RingLoop::run_ready() {
  // What these start again waits for the next turn, so that no peer keeps the loop to itself.
  List<Operation, ReadyTag> ready;
  ready.splice_back(ready_);
  List<ReceiveState, ReadyTag> unsettled;
  unsettled.splice_back(unsettled_);
  while (Operation* operation = ready.pop_front()) {
    if (operation->slot_ != nullptr) drop_slot(*operation);
    complete(*operation, operation->result_);
  }
  while (ReceiveState* state = unsettled.pop_front()) settle(*state);
}

void RingLoop::cancel_request(const void* address, Tag tag) {
  io_uring_sqe& request = entry();
  // By user_data, which the kernel finds by a hash; by descriptor it would look at every request of
  // the ring.
  io_uring_prep_cancel64(&request, reinterpret_cast<std::uintptr_t>(address) | tag, 0);
  request.flags |= IOSQE_CQE_SKIP_SUCCESS;
  request.user_data = 0;
}

Result<std::unique_ptr<Loop>> make_ring_loop(const RingOptions& options) {
  auto loop = std::make_unique<RingLoop>(options);
  const int result = loop->set_up(options);
  if (result < 0) return std::unexpected(error_from_errno(-result, "io_uring_queue_init_params()"));
  return loop;
}

}  // namespace corehttpd::io
