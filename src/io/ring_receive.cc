// Multishot receives, but for a socket's first. The kernel picks a buffer when data has come, we
// deliver and lend it again within the turn.
//
// ReceiveState::wish_ is what the owner wants and phase_ what the kernel holds. Every request of a
// state ends with one completion without F_MORE; settle() then brings phase_ in line with wish_, in
// this one place whatever happened before.
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "corehttpd/base/check.h"
#include "io/parked.h"
#include "io/ring_loop.h"

namespace corehttpd::io {

void RingLoop::receive(int fd, ReceiveState& state) {
  using Phase = ReceiveState::Phase;
  CORE_DCHECK(state.fd_ == fd || state.idle());
  state.fd_ = fd;
  state.wish_ = ReceiveState::Wish::kReceive;
  state.stop_due_ = false;
  if (state.phase_ != Phase::kOff || state.linked()) return;
  if (state.parked_ != nullptr || state.end_ != ReceiveState::kNoEnd) {
    unsettled_.push_back(state);
  } else {
    arm(state);
  }
}

void RingLoop::receive_stop(ReceiveState& state) {
  using Phase = ReceiveState::Phase;
  state.wish_ = ReceiveState::Wish::kNothing;
  state.stop_due_ = true;
  switch (state.phase_) {
    case Phase::kOff:
      if (!state.linked()) unsettled_.push_back(state);
      break;
    case Phase::kBusy:
      break;
    case Phase::kReceiving:
    case Phase::kPolling:
      if (!std::exchange(state.cancelling_, true)) {
        cancel_request(&state, state.phase_ == Phase::kReceiving ? kReceive : kReceivePoll);
      }
      break;
  }
}

void RingLoop::receive_idle(ReceiveState& state) {
  if (!state.armed()) return;
  state.wish_ = ReceiveState::Wish::kIdle;
  if (state.phase_ == ReceiveState::Phase::kReceiving && !std::exchange(state.cancelling_, true)) {
    cancel_request(&state, kReceive);
  }
}

void RingLoop::arm(ReceiveState& state) {
  io_uring_sqe& request = entry();
  if (state.wish_ == ReceiveState::Wish::kIdle) {
    state.phase_ = ReceiveState::Phase::kPolling;
    io_uring_prep_poll_add(&request, state.fd_, POLLIN | POLLRDHUP);
    mark(request, &state, kReceivePoll);
    return;
  }
  state.phase_ = ReceiveState::Phase::kReceiving;
  if (std::exchange(state.received_before_, true)) {
    io_uring_prep_recv_multishot(&request, state.fd_, nullptr, 0, 0);
  } else {
    io_uring_prep_recv(&request, state.fd_, nullptr, 0, 0);  // As much as a buffer holds.
  }
  request.flags |= IOSQE_BUFFER_SELECT;
  request.buf_group = ReceiveBuffers::kGroup;
  mark(request, &state, kReceive);
}

void RingLoop::on_receive(ReceiveState& state, int result, unsigned flags) {
  const bool more = (flags & IORING_CQE_F_MORE) != 0;
  if (!more) {
    state.phase_ = ReceiveState::Phase::kBusy;
    state.cancelling_ = false;
  }
  if ((flags & IORING_CQE_F_BUFFER) != 0) {
    const unsigned id = flags >> IORING_CQE_BUFFER_SHIFT;
    // Lent again after the call: the receiver parses it in place.
    if (result > 0) deliver(state, {buffers_.data(id), static_cast<std::size_t>(result)});
    buffers_.give(id);
  }
  if (more) return;
  switch (result) {
    case -ENOBUFS:
      buffers_.grow();
      if (!receive_without_buffer(state)) return;
      break;
    case -ECANCELED:
    case -EAGAIN:
    case -EINTR:
      break;
    default:
      // A positive result that ends the multishot (the completion queue was full): armed again.
      if (result <= 0) return end(state, result);
      break;
  }
  settle(state);
}

void RingLoop::on_receive_poll(ReceiveState& state, int result) {
  state.phase_ = ReceiveState::Phase::kBusy;
  state.cancelling_ = false;
  if (result < 0 && result != -ECANCELED) return end(state, result);
  if (result > 0 && state.armed()) state.wish_ = ReceiveState::Wish::kReceive;
  settle(state);
}

void RingLoop::deliver(ReceiveState& state, std::span<const std::byte> data) {
  // A receive() that has withdrawn a stop is answered by the kernel's completion of the latter;
  // till then what was kept before comes first.
  if (!state.armed() || state.parked_ != nullptr) {
    state.park(data);
    return;
  }
  // Not idle after all: what follows is better received than polled for.
  state.wish_ = ReceiveState::Wish::kReceive;
  state.receiver_.on_received(data);
}

// One plain receive, so that a socket makes progress even when others take every buffer as soon as
// it is lent. False when that ended the receive.
bool RingLoop::receive_without_buffer(ReceiveState& state) {
  if (!state.armed()) return true;
  ssize_t received = 0;
  do {
    received = recv(state.fd_, scratch_.get(), kScratchBytes, MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received > 0) {
    deliver(state, {scratch_.get(), static_cast<std::size_t>(received)});
    return true;
  }
  if (received < 0 && errno == EAGAIN) return true;
  end(state, received == 0 ? 0 : -errno);
  return false;
}

void RingLoop::settle(ReceiveState& state) {
  // While busy the receiver may start and stop as it likes; only what it wants at last counts.
  state.phase_ = ReceiveState::Phase::kBusy;
  while (state.armed() && state.parked_ != nullptr) {
    ReceiveState::Parked* parked = state.parked_;
    state.parked_ = parked->next;
    state.wish_ = ReceiveState::Wish::kReceive;
    state.receiver_.on_received({parked->bytes(), parked->size});
    std::free(parked);
  }
  if (state.armed() && state.end_ == ReceiveState::kNoEnd) return arm(state);
  if (state.armed()) return end(state, std::exchange(state.end_, ReceiveState::kNoEnd));
  state.phase_ = ReceiveState::Phase::kOff;
  if (std::exchange(state.stop_due_, false) && state.stopped_ != nullptr) state.stopped_(state);
}

void RingLoop::end(ReceiveState& state, int result) {
  if (!state.armed() || state.parked_ != nullptr) {
    // Told after the next receive(), and after what was kept; the kernel might not say it twice.
    state.end_ = result;
    return settle(state);
  }
  state.wish_ = ReceiveState::Wish::kNothing;
  state.phase_ = ReceiveState::Phase::kOff;
  // The receiver may destroy the state in the call: nothing of it is touched afterwards.
  if (result == 0) {
    state.receiver_.on_received({});
  } else {
    state.receiver_.on_receive_error(-result);
  }
}

}  // namespace corehttpd::io
