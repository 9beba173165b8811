#include "corehttpd/io/layer.h"

#include <cstdlib>
#include <utility>

#include "corehttpd/base/check.h"
#include "io/parked.h"

namespace corehttpd::io {

void Layer::begin(Operation& operation) {
  CORE_CHECK(!operation.pending_);
  operation.pending_ = true;
}

void Layer::complete(Operation& operation, int result) {
  operation.pending_ = false;
  operation.complete_(operation, result);
}

void Layer::arm(ReceiveState& state) {
  state.wish_ = ReceiveState::Wish::kReceive;
  state.phase_ = ReceiveState::Phase::kReceiving;
  state.stop_due_ = false;
}

void Layer::ask_stop(ReceiveState& state) {
  state.wish_ = ReceiveState::Wish::kNothing;
  state.stop_due_ = true;
}

void Layer::let_go(ReceiveState& state) {
  state.wish_ = ReceiveState::Wish::kNothing;
  state.phase_ = ReceiveState::Phase::kOff;
  if (std::exchange(state.stop_due_, false) && state.stopped_ != nullptr) state.stopped_(state);
}

void Layer::deliver(ReceiveState& state, std::span<const std::byte> data) {
  if (state.armed() && state.parked_ == nullptr) {
    state.receiver_.on_received(data);
  } else {
    state.park(data);
  }
}

void Layer::deliver_parked(ReceiveState& state) {
  while (state.armed() && state.parked_ != nullptr) {
    ReceiveState::Parked* parked = state.parked_;
    state.parked_ = parked->next;
    state.receiver_.on_received({parked->bytes(), parked->size});
    std::free(parked);
  }
}

bool Layer::has_parked(const ReceiveState& state) { return state.parked_ != nullptr; }

void Layer::end(ReceiveState& state, int errno_value) {
  CORE_DCHECK(state.armed());
  state.wish_ = ReceiveState::Wish::kNothing;
  state.phase_ = ReceiveState::Phase::kOff;
  if (errno_value == 0) {
    state.receiver_.on_received({});
  } else {
    state.receiver_.on_receive_error(errno_value);
  }
}

}  // namespace corehttpd::io
