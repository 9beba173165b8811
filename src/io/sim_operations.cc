// What the simulated kernel does for each kind of request. Everything happens in the turn, nothing
// inside the call that asks.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "corehttpd/base/check.h"
#include "io/sim_event.h"

namespace corehttpd::io {

SimLoop::Event& SimLoop::add(Kind kind) {
  auto event = std::make_unique<Event>();
  event->kind = kind;
  event->id = ++events_made_;
  event->not_before = now_;
  if (options_.delays && random(4) == 0) event->not_before += static_cast<Milliseconds>(random(20));
  events_.push_back(std::move(event));
  return *events_.back();
}

SimLoop::Event& SimLoop::start(Kind kind, int fd, Operation& operation) {
  CORE_CHECK(!operation.pending_);
  operation.pending_ = true;
  Event& event = add(kind);
  event.operation = &operation;
  event.fd = fd;
  return event;
}

void SimLoop::accept(int listener, sockaddr_storage& peer, Operation& operation) {
  start(Kind::kAccept, listener, operation).peer_address = &peer;
}

void SimLoop::send(int fd, std::span<const iovec> data, bool, Operation& operation) {
  Event& event = start(Kind::kSend, fd, operation);
  event.vector_count = std::min(data.size(), kVectorsMax);
  std::copy_n(data.begin(), event.vector_count, event.vectors.begin());
}

void SimLoop::send_file(int socket, int file, std::uint64_t offset, std::size_t length,
                        Operation& operation) {
  Event& event = start(Kind::kSendFile, socket, operation);
  event.file = file;
  event.offset = offset;
  event.length = std::min(length, kFileWindowBytes);
}

void SimLoop::connect(int fd, const sockaddr* address, socklen_t length, Operation& operation) {
  Event& event = start(Kind::kConnect, fd, operation);
  CORE_CHECK(length <= sizeof event.address);
  std::memcpy(&event.address, address, length);
  event.address_bytes = length;
}

void SimLoop::read(int file, void* into, std::size_t length, std::uint64_t offset,
                   Operation& operation) {
  Event& event = start(Kind::kRead, file, operation);
  event.memory = into;
  event.length = length;
  event.offset = offset;
}

void SimLoop::write(int file, const void* from, std::size_t length, std::uint64_t offset,
                    Operation& operation) {
  Event& event = start(Kind::kWrite, file, operation);
  event.memory = const_cast<void*>(from);
  event.length = length;
  event.offset = offset;
}

void SimLoop::open(const char* path, int flags, unsigned mode, Operation& operation) {
  Event& event = start(Kind::kOpen, -1, operation);
  event.path = path;
  event.flags = flags | O_CLOEXEC;
  event.mode = mode;
}

void SimLoop::poll(int fd, unsigned poll_events, Operation& operation) {
  start(Kind::kPoll, fd, operation).poll_events = poll_events;
}

void SimLoop::cancel(Operation& operation) {
  if (!operation.pending_) return;
  for (const auto& event : events_) {
    if (event->operation == &operation) event->cancelled = true;
  }
}

bool SimLoop::offload(OffloadTask& task) {
  if (offloaded_ >= kOffloadTasksMax) return false;
  ++offloaded_;
  add(Kind::kOffloadRun).task = &task;
  return true;
}

void SimLoop::receive(int fd, ReceiveState& state) {
  CORE_CHECK(state.fd_ == fd || state.idle());
  state.fd_ = fd;
  const bool withdrawn = std::exchange(state.stop_due_, false);
  const bool armed =
      std::exchange(state.wish_, ReceiveState::Wish::kReceive) != ReceiveState::Wish::kNothing;
  if (armed || state.phase_ == ReceiveState::Phase::kBusy) return;
  if (withdrawn) {
    std::erase_if(events_, [&](const auto& event) { return event->state == &state; });
  }
  state.phase_ = ReceiveState::Phase::kReceiving;
  add(Kind::kReceive).state = &state;
}

void SimLoop::receive_stop(ReceiveState& state) {
  state.wish_ = ReceiveState::Wish::kNothing;
  if (std::exchange(state.stop_due_, true) || state.phase_ == ReceiveState::Phase::kBusy) return;
  std::erase_if(events_, [&](const auto& event) { return event->state == &state; });
  state.phase_ = ReceiveState::Phase::kReceiving;
  add(Kind::kStopped).state = &state;
}

void SimLoop::receive_idle(ReceiveState& state) {
  if (state.armed()) state.wish_ = ReceiveState::Wish::kIdle;
}

int SimLoop::poll_now(int fd, unsigned wanted) {
  SimPeer* peer = peer_of(fd);
  if (peer == nullptr) {
    const auto listener = listeners_.find(fd);
    if (listener != listeners_.end())
      return listener->second.empty() ? 0 : static_cast<int>(wanted & POLLIN);
    pollfd polled{fd, static_cast<short>(wanted), 0};
    return ::poll(&polled, 1, 0) > 0 ? polled.revents : 0;
  }
  unsigned events = 0;
  if (!peer->inbound_.empty() || peer->finished_ || peer->reset_) events |= POLLIN;
  if (peer->finished_ || peer->reset_) events |= POLLRDHUP;
  if (peer->outbound_.size() < peer->window_bytes_ || peer->reset_ || peer->ended_)
    events |= POLLOUT;
  return static_cast<int>((events & wanted) | (peer->reset_ ? POLLERR | POLLHUP : 0));
}

bool SimLoop::possible(const Event& event) {
  if (event.cancelled) return true;
  switch (event.kind) {
    case Kind::kAccept:
      return poll_now(event.fd, POLLIN) != 0;
    case Kind::kSend:
    case Kind::kSendFile:
      return poll_now(event.fd, POLLOUT) != 0;
    case Kind::kPoll:
      return poll_now(event.fd, event.poll_events) != 0;
    case Kind::kReceive:
      return poll_now(event.state->fd_, POLLIN) != 0;
    default:
      return true;
  }
}

void SimLoop::happen(std::unique_ptr<Event> event) {
  switch (event->kind) {
    case Kind::kReceive:
      return happen_receive(*event->state);
    case Kind::kStopped:
      return settle(*event->state);
    case Kind::kOffloadRun:
      event->task->run();
      add(Kind::kOffloadDone).task = event->task;
      return;
    case Kind::kOffloadDone:
      --offloaded_;
      return event->task->done();
    default:
      break;
  }
  int result = -ECANCELED;
  // A cancelled operation that could complete does so every other time, as with a kernel that had
  // begun.
  const bool withdrawn =
      std::exchange(event->cancelled, false) && (!possible(*event) || random(2) == 0);
  if (!withdrawn) result = perform(*event);
  Operation& operation = *event->operation;
  event.reset();
  operation.pending_ = false;
  operation.complete_(operation, result);
}

int SimLoop::perform(Event& event) {
  switch (event.kind) {
    case Kind::kAccept:
      return perform_accept(event);
    case Kind::kConnect:
      return perform_connect(event);
    case Kind::kSend:
      return perform_send(event);
    case Kind::kSendFile:
      return perform_send_file(event);
    case Kind::kPoll:
      return poll_now(event.fd, event.poll_events);
    default:
      return perform_file(event);
  }
}

int SimLoop::perform_accept(Event& event) {
  std::deque<SimPeer*>& waiting = listeners_[event.fd];
  SimPeer& peer = *waiting.front();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
  waiting.pop_front();
  peer.fd_ = pair[0];
  peer.other_fd_ = pair[1];
  by_fd_[peer.fd_] = &peer;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(40'000 + peers_.size() % 20'000));
  *event.peer_address = {};
  std::memcpy(event.peer_address, &address, sizeof address);
  return peer.fd_;
}

int SimLoop::perform_connect(Event& event) {
  const int fate =
      decide_connect_ == nullptr
          ? -ECONNREFUSED
          : decide_connect_(reinterpret_cast<const sockaddr*>(&event.address), event.address_bytes);
  if (fate != 0) return fate;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
  // The caller's descriptor becomes one end, so that its close is seen at the other.
  const int result = dup3(pair[0], event.fd, O_CLOEXEC);
  close(pair[0]);
  if (result < 0) {
    const int error = errno;
    close(pair[1]);
    return -error;
  }
  SimPeer& peer = make_peer();
  peer.fd_ = event.fd;
  peer.other_fd_ = pair[1];
  by_fd_[peer.fd_] = &peer;
  return 0;
}

bool SimLoop::reset_now(SimPeer& peer) {
  if (chance(options_.resets_per_mille)) peer.reset_ = true;
  return peer.reset_;
}

int SimLoop::perform_send(Event& event) {
  SimPeer* peer = peer_of(event.fd);
  if (peer == nullptr) return -ENOTSOCK;
  // As in TCP, the first call after a reset learns of it, later ones find a broken pipe.
  if (reset_now(*peer)) return std::exchange(peer->reset_told_, true) ? -EPIPE : -ECONNRESET;
  if (peer->ended_) return -EPIPE;
  std::size_t total = 0;
  for (std::size_t i = 0; i < event.vector_count; ++i) total += event.vectors[i].iov_len;
  if (total == 0) return 0;
  const std::size_t sent = portion(std::min(total, peer->window_bytes_ - peer->outbound_.size()));
  std::size_t left = sent;
  // Copied only now: memory that is given up before the completion shows under the address
  // sanitizer.
  for (std::size_t i = 0; left != 0; ++i) {
    const std::size_t part = std::min(left, event.vectors[i].iov_len);
    peer->outbound_.append(static_cast<const char*>(event.vectors[i].iov_base), part);
    left -= part;
  }
  return static_cast<int>(sent);
}

int SimLoop::perform_send_file(Event& event) {
  SimPeer* peer = peer_of(event.fd);
  if (peer == nullptr) return -ENOTSOCK;
  if (reset_now(*peer)) return std::exchange(peer->reset_told_, true) ? -EPIPE : -ECONNRESET;
  if (peer->ended_) return -EPIPE;
  std::string window(portion(std::min(event.length, peer->window_bytes_ - peer->outbound_.size())),
                     '\0');
  const ssize_t got =
      pread(event.file, window.data(), window.size(), static_cast<off_t>(event.offset));
  if (got < 0) return -errno;
  peer->outbound_.append(window, 0, static_cast<std::size_t>(got));
  return static_cast<int>(got);
}

int SimLoop::perform_file(Event& event) {
  const auto offset = static_cast<off_t>(event.offset);
  ssize_t result = -1;
  switch (event.kind) {
    case Kind::kOpen:
      result = ::open(event.path, event.flags, event.mode);
      break;
    case Kind::kRead:
      result = pread(event.fd, event.memory, portion(event.length), offset);
      break;
    default:
      result = event.offset == UINT64_MAX
                   ? ::write(event.fd, event.memory, portion(event.length))
                   : pwrite(event.fd, event.memory, portion(event.length), offset);
      break;
  }
  return result < 0 ? -errno : static_cast<int>(result);
}

void SimLoop::happen_receive(ReceiveState& state) {
  SimPeer* peer = peer_of(state.fd_);
  if (peer != nullptr && reset_now(*peer)) peer->reset_told_ = true;
  if (peer == nullptr || peer->reset_ || peer->inbound_.empty()) {
    // The last call of this receive, which may destroy the state.
    state.phase_ = ReceiveState::Phase::kOff;
    state.wish_ = ReceiveState::Wish::kNothing;
    if (peer == nullptr) return state.receiver_.on_receive_error(ENOTSOCK);
    if (peer->reset_) return state.receiver_.on_receive_error(ECONNRESET);
    return state.receiver_.on_received({});
  }
  constexpr std::size_t kBufferBytes = 8192;
  const std::size_t size = portion(std::min(peer->inbound_.size(), kBufferBytes));
  // A copy of exactly this size, so that reading past its end or keeping it shows under the address
  // sanitizer.
  const std::vector<std::byte> data(
      reinterpret_cast<const std::byte*>(peer->inbound_.data()),
      reinterpret_cast<const std::byte*>(peer->inbound_.data()) + size);
  peer->inbound_.erase(0, size);
  state.wish_ = ReceiveState::Wish::kReceive;
  state.phase_ = ReceiveState::Phase::kBusy;
  state.receiver_.on_received(data);
  settle(state);
}

void SimLoop::settle(ReceiveState& state) {
  const bool busy = state.phase_ == ReceiveState::Phase::kBusy;
  if (state.armed()) {
    state.phase_ = ReceiveState::Phase::kReceiving;
    add(Kind::kReceive).state = &state;
    return;
  }
  if (busy && state.stop_due_) {
    // Stopped by the receiver itself: told later, as everything is.
    state.phase_ = ReceiveState::Phase::kReceiving;
    add(Kind::kStopped).state = &state;
    return;
  }
  state.phase_ = ReceiveState::Phase::kOff;
  if (std::exchange(state.stop_due_, false) && state.stopped_ != nullptr) state.stopped_(state);
}

}  // namespace corehttpd::io
