// What a stopped receive had already taken off its socket.
#include <cstdlib>
#include <cstring>

#include "corehttpd/base/check.h"
#include "io/parked.h"

namespace corehttpd::io {

ReceiveState::~ReceiveState() {
  while (parked_ != nullptr) {
    Parked* next = parked_->next;
    std::free(parked_);
    parked_ = next;
  }
}

void ReceiveState::take_parked(void* context, Take take) {
  while (parked_ != nullptr) {
    Parked* parked = parked_;
    parked_ = parked->next;
    take(context, {parked->bytes(), parked->size});
    std::free(parked);
  }
}

void ReceiveState::park(std::span<const std::byte> data) {
  void* memory = std::malloc(sizeof(Parked) + data.size());
  CORE_CHECK(memory != nullptr);
  Parked* parked = new (memory) Parked{nullptr, data.size()};
  std::memcpy(parked->bytes(), data.data(), data.size());
  Parked** end = &parked_;
  while (*end != nullptr) end = &(*end)->next;
  *end = parked;
}

}  // namespace corehttpd::io
