// One connection to an origin: connecting, sending what is queued, receiving with back-pressure,
// with the timeouts of each. It lives on the heap by itself, because the kernel may still be using
// its memory when the request behind it is long gone: close() makes it forget its user, withdraw
// its operations and destroy itself when the kernel has let go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/segment.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::upstream {

class OriginConnection final : private io::Receiver {
 public:
  // Calls come from the loop, never from within a call of ours. The user may close() in any of
  // them.
  class User {
   public:
    virtual void on_connected() = 0;
    // errno_value: ETIMEDOUT when connect_timeout ran out, EAGAIN when that was spent waiting for a
    // place in the backlog of a unix socket.
    virtual void on_connect_failed(int errno_value) = 0;
    // Everything queued has been handed to the kernel.
    virtual void on_drained() = 0;
    // The origin takes no more: EPIPE, ECONNRESET, ETIMEDOUT (send_timeout). What was queued is
    // dropped. It may still have something to say.
    virtual void on_send_failed(int errno_value) = 0;
    // bytes empty: the origin closed. Valid during the call.
    virtual void on_received(std::span<const std::byte> bytes) = 0;
    virtual void on_receive_failed(int errno_value) = 0;

   protected:
    ~User() = default;
  };
  struct Options {
    Milliseconds connect_timeout = 60'000;
    Milliseconds send_timeout = 60'000;
    bool keepalive = false;             // SO_KEEPALIVE.
    const io::Address* bind = nullptr;  // The local address; used during open() only.
    bool transparent = false;           // It need not be one of ours (IP_TRANSPARENT).
  };
  static constexpr std::size_t kQueueMax = 32;

  // Starts connecting. A failure is reported by on_connect_failed(), also one that is known at
  // once.
  static OriginConnection* open(io::Loop& loop, User& user, const io::Address& address,
                                const Options& options);
  // Adds to what is to be sent; at most kQueueMax segments at a time. Starts with flush().
  void queue(Segment segment);
  std::size_t queue_room() const { return kQueueMax - queued_; }
  // more: further data follows as soon as this is gone, so small packets may wait for it.
  void flush(bool more);
  bool sending() const { return queued_ > 0; }
  void drop_queue();
  // Receiving is off at first.
  void start_receiving();
  void stop_receiving();
  // Bytes that the kernel has taken from us.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  void close();
  // Tells the origin that nothing more comes; what it sends is still received.
  void end_sending();
  // Nobody wants the answer any more: farewell is said, the origin gets an error for what it sends
  // from now on, and on_received() reports that it has ended or has read the farewell, and only
  // that, to whoever receives. False: not all of the request has been sent, the protocol has no
  // farewell, or it could not be seen whether it is read (only unix sockets tell).
  bool abandon(std::span<const std::byte> farewell);
  // A connection that is open and neither sends nor is waited for gets another user, with the
  // timeouts that it wants; receiving goes on as it was.
  void hand_over(User& user) { user_ = &user; }
  void hand_over(User& user, const Options& options) {
    user_ = &user;
    options_.send_timeout = options.send_timeout;
    bytes_sent_ = 0;
    ++uses_;
  }
  // It could not be given the local address that was asked for: no fault of the origin's.
  bool bind_failed() const { return bind_failed_; }
  // Open, and nothing is on its way to the origin.
  bool at_rest() const { return state_ == State::kOpen && !sending(); }
  // The same, and nothing has come that was not received yet: neither data nor the end.
  bool quiet() const;
  // After its end: the peer cannot have acted upon what we sent, which it has not read, or read
  // only to throw it away (as php-fpm's children do that have answered pm.max_requests requests).
  bool left_unread() const;
  const io::Address& address() const { return address_; }
  // How many users it had, and since when it has been.
  std::uint32_t uses() const { return uses_; }
  Milliseconds opened_ms() const { return opened_ms_; }

 private:
  struct Operation : io::Operation {
    Operation(Complete complete, OriginConnection& owner)
        : io::Operation(complete), connection(owner) {}
    OriginConnection& connection;
  };
  struct Timer : io::Timer {
    Timer(Fire fire, OriginConnection& owner) : io::Timer(fire), connection(owner) {}
    OriginConnection& connection;
  };
  struct Destroy : TurnTask {
    Destroy(Run run, OriginConnection& owner) : TurnTask(run), connection(owner) {}
    OriginConnection& connection;
  };
  struct Receive : io::ReceiveState {
    Receive(io::Receiver& receiver, Stopped stopped, OriginConnection& owner)
        : io::ReceiveState(receiver, stopped), connection(owner) {}
    OriginConnection& connection;
  };
  enum class State : std::uint8_t {
    kConnecting,  // connect() is with the kernel.
    kWaiting,     // The backlog was full; the timer starts the next try.
    kFailing,     // A failure was found before anything could wait for it; the timer reports it.
    kOpen,        // Data flows.
    kClosed,      // close() was called; waiting for the kernel.
  };

  OriginConnection(io::Loop& loop, User& user, const io::Address& address, const Options& options);
  ~OriginConnection();
  void start_connect();
  int prepare_socket();
  void on_connect(int result);
  void on_connect_timer();
  void look_for_end();
  void connect_failed(int errno_value);
  void send_next();
  void on_send(int result);
  void on_send_timer();
  void send_failed(int errno_value);
  void consume(std::size_t bytes);
  void on_received(std::span<const std::byte> data) override;
  void on_receive_error(int errno_value) override;
  bool idle() const;
  void finish_if_idle();

  io::Loop& loop_;
  User* user_;
  io::Address address_;
  io::Address local_;  // length 0: the system chooses.
  Options options_;
  int fd_ = -1;
  State state_ = State::kConnecting;
  bool more_ = false;
  bool bind_failed_ = false;
  bool send_timed_out_ = false;
  bool connect_timed_out_ = false;
  bool abandoned_ = false;
  int failure_ = 0;
  Milliseconds connect_deadline_ms_ = 0;
  Milliseconds backoff_ms_ = 0;
  Operation connect_;
  Operation send_;
  Receive receive_;
  Timer connect_timer_;  // When abandoned: of the next look.
  Timer send_timer_;
  Destroy destroy_;
  std::array<Segment, kQueueMax> queue_;  // A ring.
  std::size_t first_ = 0;
  std::size_t queued_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint32_t uses_ = 1;
  Milliseconds opened_ms_ = 0;
};

}  // namespace corehttpd::upstream
