// One piece of data that came after receive_stop(), bytes behind it in the same allocation.
#pragma once

#include <cstddef>

#include "corehttpd/io/loop.h"

namespace corehttpd::io {

struct ReceiveState::Parked {
  Parked* next;
  std::size_t size;
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

}  // namespace corehttpd::io
