// What is under way in a simulated loop.
#pragma once

#include <array>
#include <string>

#include "corehttpd/io/sim_loop.h"

namespace corehttpd::io {

enum class SimLoop::Kind : std::uint8_t {
  kAccept,
  kConnect,
  kSend,
  kSendFile,
  kRead,
  kWrite,
  kOpen,
  kPoll,  // Operations.
  kReceive,
  kStopped,  // Of a ReceiveState.
  kOffloadRun,
  kOffloadDone,
};

struct SimLoop::Event {
  Kind kind{};
  std::uint64_t id = 0;
  Milliseconds not_before = 0;
  Operation* operation = nullptr;
  bool cancelled = false;
  ReceiveState* state = nullptr;
  OffloadTask* task = nullptr;
  int fd = -1;
  int file = -1;
  std::uint64_t offset = 0;
  std::size_t length = 0;
  void* memory = nullptr;
  const char* path = nullptr;
  int flags = 0;
  unsigned mode = 0;
  unsigned poll_events = 0;
  sockaddr_storage address{};
  socklen_t address_bytes = 0;
  sockaddr_storage* peer_address = nullptr;
  std::array<iovec, kVectorsMax> vectors{};
  std::size_t vector_count = 0;
};

}  // namespace corehttpd::io
