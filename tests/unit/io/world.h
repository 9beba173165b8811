// One loop and connected peers, real or simulated, so that the same tests run against both.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/io/loop.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::io::testing {

// The far end of a connection.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual int fd() = 0;  // Ours, for the loop.
  virtual void push(std::string_view bytes) = 0;
  virtual void finish() = 0;
  virtual void reset() = 0;
  // Takes what has arrived by now.
  virtual std::string take() = 0;
};

class World {
 public:
  virtual ~World() = default;
  virtual Loop& loop() = 0;
  virtual std::unique_ptr<Peer> connect() = 0;
  // Runs turns until the condition holds; false when it can't come true any more (or takes
  // unreasonably long).
  virtual bool run_until(const std::function<bool()>& holds) = 0;
};

class RealPeer final : public Peer {
 public:
  // Small buffers, so that a slow reader is felt soon.
  RealPeer() {
    Address any = *parse_address("127.0.0.1:1", 0);
    any.set_port(0);
    const int listener = *listen_on(any, {.receive_buffer = 16 * 1024, .send_buffer = 16 * 1024});
    const Address bound = *local_address(listener);
    theirs_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int size = 16 * 1024;
    setsockopt(theirs_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    EXPECT_EQ(0, ::connect(theirs_, bound.get(), bound.length)) << errno;
    ours_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    fcntl(ours_, F_SETFL, O_NONBLOCK);
    fcntl(theirs_, F_SETFL, O_NONBLOCK);
    ::close(listener);
  }
  ~RealPeer() override {
    if (theirs_ >= 0) ::close(theirs_);
    ::close(ours_);
  }
  int fd() override { return ours_; }
  int theirs() const { return theirs_; }
  void push(std::string_view bytes) override {
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()),
              ::send(theirs_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void finish() override { ::shutdown(theirs_, SHUT_WR); }
  void reset() override {
    const linger hard{1, 0};
    setsockopt(theirs_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    ::close(theirs_);
    theirs_ = -1;
  }
  std::string take() override {
    std::string out;
    char buffer[65536];
    for (ssize_t n; (n = ::recv(theirs_, buffer, sizeof buffer, 0)) > 0;)
      out.append(buffer, static_cast<std::size_t>(n));
    return out;
  }

 private:
  int ours_ = -1;
  int theirs_ = -1;
};

class RealWorld final : public World {
 public:
  explicit RealWorld(const RingOptions& options = {}) {
    signal(SIGPIPE, SIG_IGN);
    auto made = make_ring_loop(options);
    EXPECT_TRUE(made.has_value()) << explain_ring_failure(made.error().detail);
    loop_ = std::move(*made);
  }
  Loop& loop() override { return *loop_; }
  std::unique_ptr<Peer> connect() override { return std::make_unique<RealPeer>(); }
  bool run_until(const std::function<bool()>& holds) override {
    // Only there to end a test that would hang; nothing depends on its length.
    static bool expired;
    expired = false;
    Timer guard([](Timer&) { expired = true; });
    loop_->schedule(guard, 20'000);
    // A turn at least, and with a tick, since peers act between turns without the loop's knowledge.
    Timer tick([](Timer&) {});
    while (!holds() && !expired) {
      loop_->schedule(tick, 1);
      loop_->run_once();
    }
    return holds();
  }

 private:
  std::unique_ptr<Loop> loop_;
};

class SimulatedPeer final : public Peer {
 public:
  explicit SimulatedPeer(SimPeer& peer) : peer_(peer) {}
  ~SimulatedPeer() override { ::close(peer_.fd()); }
  int fd() override { return peer_.fd(); }
  void push(std::string_view bytes) override { peer_.push(bytes); }
  void finish() override { peer_.finish(); }
  void reset() override { peer_.reset(); }
  std::string take() override { return peer_.take(); }

 private:
  SimPeer& peer_;
};

class SimulatedWorld final : public World {
 public:
  explicit SimulatedWorld(std::uint64_t seed = 7) : loop_(SimOptions{.seed = seed}) {}
  Loop& loop() override { return loop_; }
  std::unique_ptr<Peer> connect() override {
    return std::make_unique<SimulatedPeer>(loop_.connect_pair());
  }
  bool run_until(const std::function<bool()>& holds) override {
    int quiet_turns = 0;
    for (int i = 0; i < 1'000'000 && !holds(); ++i) {
      loop_.run_once();
      // The condition itself may act for the peer, so that one quiet turn is no end.
      quiet_turns = loop_.quiet() ? quiet_turns + 1 : 0;
      if (quiet_turns > 10) break;
    }
    return holds();
  }

 private:
  SimLoop loop_;
};

// An operation that remembers how it ended.
struct Outcome : Operation {
  Outcome()
      : Operation([](Operation& self, int result) { static_cast<Outcome&>(self).ended(result); }) {}
  void ended(int value) {
    result = value;
    ++completions;
  }
  bool done() const { return completions != 0; }
  int result = 0;
  int completions = 0;
};

struct Collector final : Receiver {
  Collector() : state(*this, [](ReceiveState& s) { ++from(s).stops; }) {}
  static Collector& from(ReceiveState& s) { return static_cast<Collector&>(s.receiver()); }
  void on_received(std::span<const std::byte> bytes) override {
    ++calls;
    if (bytes.empty()) {
      ended = true;
      return;
    }
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (on_data) on_data();
  }
  void on_receive_error(int errno_value) override { error = errno_value; }

  ReceiveState state;
  std::function<void()> on_data;
  std::string data;
  bool ended = false;
  int error = 0;
  int calls = 0;
  int stops = 0;
};

// Bytes whose place in the stream can be recognized.
inline std::string pattern(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>('a' + (i * 31 + i / 251) % 26);
  return out;
}

// A temporary file without a name.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view contents)
      : fd_(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    if (fd_ < 0) fd_ = memfd_create("test", MFD_CLOEXEC);
    EXPECT_EQ(static_cast<ssize_t>(contents.size()),
              ::pwrite(fd_, contents.data(), contents.size(), 0));
  }
  ~TemporaryFile() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace corehttpd::io::testing
