#include "upstream/origin_connection.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {
namespace {

// A full backlog of a unix socket is no error but a queue that we cannot stand in: asked again
// soon, then less often.
constexpr Milliseconds kBackoffFirst = 5;
constexpr Milliseconds kBackoffMax = 100;
// One window of sendfile(2): large enough for speed, small enough for other connections.
constexpr std::size_t kFileWindow = 512 * 1024;
// How often an abandoned origin is looked after: there are never more of them than PHP has workers.
constexpr Milliseconds kLookMs = 20;

}  // namespace

OriginConnection* OriginConnection::open(io::Loop& loop, User& user, const io::Address& address,
                                         const Options& options) {
  auto* connection = new OriginConnection(loop, user, address, options);
  connection->start_connect();
  return connection;
}

OriginConnection::OriginConnection(io::Loop& loop, User& user, const io::Address& address,
                                   const Options& options)
    : loop_(loop),
      user_(&user),
      address_(address),
      options_(options),
      connect_([](io::Operation& o,
                  int result) { static_cast<Operation&>(o).connection.on_connect(result); },
               *this),
      send_([](io::Operation& o,
               int result) { static_cast<Operation&>(o).connection.on_send(result); },
            *this),
      receive_(
          *this, [](io::ReceiveState& s) { static_cast<Receive&>(s).connection.finish_if_idle(); },
          *this),
      connect_timer_([](io::Timer& t) { static_cast<Timer&>(t).connection.on_connect_timer(); },
                     *this),
      send_timer_([](io::Timer& t) { static_cast<Timer&>(t).connection.on_send_timer(); }, *this),
      destroy_(
          [](TurnTask& t) {
            OriginConnection& connection = static_cast<Destroy&>(t).connection;
            if (connection.idle()) delete &connection;
          },
          *this) {
  opened_ms_ = loop.clock().now_ms();
  connect_deadline_ms_ = opened_ms_ + options.connect_timeout;
  if (options.bind != nullptr && options.bind->family() == address.family()) local_ = *options.bind;
  options_.bind = nullptr;
}

OriginConnection::~OriginConnection() {
  if (fd_ >= 0) ::close(fd_);
}

// 0, or the errno of what failed.
int OriginConnection::prepare_socket() {
  const Result<int> fd = io::open_stream_socket(address_.family());
  if (!fd) return fd.error().detail != 0 ? fd.error().detail : EMFILE;
  fd_ = *fd;
  const int on = 1;
  if (!address_.is_unix()) io::set_no_delay(fd_, true);
  if (options_.keepalive) ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (local_.length == 0) return 0;
  if (options_.transparent) {
    const bool v6 = address_.family() == AF_INET6;
    if (::setsockopt(fd_, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT, &on,
                     sizeof(on)) < 0) {
      bind_failed_ = true;
      return errno;
    }
  }
  // Without a port of its own each destination may reuse the same ones.
  if (local_.port() == 0) {
    ::setsockopt(fd_, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  }
  bind_failed_ = ::bind(fd_, local_.get(), local_.length) < 0;
  return bind_failed_ ? errno : 0;
}

bool OriginConnection::quiet() const {
  if (!at_rest()) return false;
  char byte = 0;
  const ssize_t got = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

bool OriginConnection::left_unread() const {
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == ECONNRESET || error == EPIPE) return true;
  // TCP tells neither what was read nor how the peer has ended.
  if (!address_.is_unix()) return false;
  int unread = 0;
  if (::ioctl(fd_, SIOCOUTQ, &unread) == 0 && unread > 0) return true;
  // Only its sending side is closed: a peer that had anything to say would have said it before. A
  // process that died has closed both.
  pollfd state{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & (POLLHUP | POLLERR)) == 0;
}

void OriginConnection::start_connect() {
  if (fd_ < 0) {
    if (const int failure = prepare_socket(); failure != 0) {
      // Reported from the loop: the user is still in the call that made us.
      state_ = State::kFailing;
      failure_ = failure;
      loop_.schedule(connect_timer_, 0);
      return;
    }
  }
  state_ = State::kConnecting;
  loop_.connect(fd_, address_.get(), address_.length, connect_);
  loop_.schedule(connect_timer_,
                 std::max<Milliseconds>(connect_deadline_ms_ - loop_.clock().now_ms(), 1));
}

void OriginConnection::on_connect(int result) {
  if (state_ == State::kClosed) return finish_if_idle();
  if (connect_timed_out_) return connect_failed(ETIMEDOUT);
  if (result == -EAGAIN && address_.is_unix()) {
    const Milliseconds left = connect_deadline_ms_ - loop_.clock().now_ms();
    if (left <= 0) return connect_failed(EAGAIN);
    backoff_ms_ = std::clamp(backoff_ms_ * 2, kBackoffFirst, kBackoffMax);
    state_ = State::kWaiting;
    loop_.schedule(connect_timer_, std::min(backoff_ms_, left));
    return;
  }
  loop_.cancel(connect_timer_);
  if (result < 0) return connect_failed(-result);
  state_ = State::kOpen;
  user_->on_connected();
}

void OriginConnection::on_connect_timer() {
  switch (state_) {
    case State::kWaiting:
      // A socket whose connect() has failed is not sure to take another one: a fresh one.
      ::close(std::exchange(fd_, -1));
      return start_connect();
    case State::kFailing:
      return connect_failed(failure_);
    case State::kConnecting:
      connect_timed_out_ = true;
      loop_.cancel(connect_);
      return;
    case State::kOpen:
      return look_for_end();
    case State::kClosed:
      return;
  }
}

void OriginConnection::connect_failed(int errno_value) {
  state_ = State::kFailing;
  loop_.cancel(connect_timer_);
  user_->on_connect_failed(errno_value);
}

void OriginConnection::queue(Segment segment) {
  CORE_CHECK(queued_ < kQueueMax);
  if (segment.length() == 0) return;
  queue_[(first_ + queued_) % kQueueMax] = std::move(segment);
  ++queued_;
}

void OriginConnection::flush(bool more) {
  more_ = more;
  if (state_ == State::kOpen && queued_ > 0 && !send_.pending()) send_next();
}

void OriginConnection::send_next() {
  loop_.schedule(send_timer_, options_.send_timeout);
  const Segment& front = queue_[first_];
  if (!front.in_memory()) {
    loop_.send_file(fd_, front.fd(), front.file_offset(),
                    std::min<std::size_t>(front.length(), kFileWindow), send_);
    return;
  }
  std::array<iovec, io::Loop::kVectorsMax> vectors;
  std::size_t count = 0;
  while (count < std::min(queued_, vectors.size())) {
    const Segment& segment = queue_[(first_ + count) % kQueueMax];
    if (!segment.in_memory()) break;
    vectors[count++] = {const_cast<std::byte*>(segment.bytes()), segment.length()};
  }
  loop_.send(fd_, std::span(vectors).first(count), more_ || count < queued_, send_);
}

void OriginConnection::on_send(int result) {
  if (state_ == State::kClosed) {
    drop_queue();
    return finish_if_idle();
  }
  loop_.cancel(send_timer_);
  if (result == -EINTR || result == -EAGAIN) return send_next();
  if (result < 0) return send_failed(send_timed_out_ ? ETIMEDOUT : -result);
  if (result == 0 && queued_ > 0 && !queue_[first_].in_memory()) {
    // The file with the request's body is shorter than it was: its length was promised already.
    return send_failed(EIO);
  }
  send_timed_out_ = false;  // The timer lost the race.
  consume(static_cast<std::size_t>(result));
  if (queued_ > 0) return send_next();
  user_->on_drained();
}

void OriginConnection::consume(std::size_t bytes) {
  bytes_sent_ += bytes;
  while (bytes > 0) {
    Segment& front = queue_[first_];
    const std::size_t now = std::min<std::size_t>(bytes, front.length());
    front.remove_prefix(now);
    bytes -= now;
    if (front.length() > 0) return;
    front = Segment();
    first_ = (first_ + 1) % kQueueMax;
    --queued_;
  }
}

void OriginConnection::on_send_timer() {
  send_timed_out_ = true;
  loop_.cancel(send_);
}

void OriginConnection::send_failed(int errno_value) {
  drop_queue();
  user_->on_send_failed(errno_value);
}

void OriginConnection::drop_queue() {
  if (send_.pending()) return;  // The kernel still reads it; on_send() drops it when we are closed.
  for (; queued_ > 0; --queued_) {
    queue_[first_] = Segment();
    first_ = (first_ + 1) % kQueueMax;
  }
}

void OriginConnection::start_receiving() {
  if (abandoned_) return loop_.schedule(connect_timer_, kLookMs);
  if (state_ == State::kOpen && !receive_.armed()) loop_.receive(fd_, receive_);
}

void OriginConnection::stop_receiving() {
  if (receive_.armed()) loop_.receive_stop(receive_);
}

void OriginConnection::on_received(std::span<const std::byte> data) {
  if (state_ == State::kClosed) return finish_if_idle();
  if (!abandoned_) user_->on_received(data);
}

void OriginConnection::on_receive_error(int errno_value) {
  if (state_ == State::kClosed) return finish_if_idle();
  if (!abandoned_) user_->on_receive_failed(errno_value);
}

void OriginConnection::end_sending() {
  if (state_ == State::kOpen) ::shutdown(fd_, SHUT_WR);
}

bool OriginConnection::abandon(std::span<const std::byte> farewell) {
  if (state_ != State::kOpen || sending() || !address_.is_unix() || farewell.empty()) return false;
  if (::send(fd_, farewell.data(), farewell.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(farewell.size())) {
    return false;
  }
  stop_receiving();
  ::shutdown(fd_, SHUT_RD);
  abandoned_ = true;
  return true;
}

// The ring's polls wake for our own shutdown as well, and would go on doing so. php-fpm's child
// reads when it has ended the script, and does not close before we do.
void OriginConnection::look_for_end() {
  pollfd state{.fd = fd_, .events = 0, .revents = 0};
  int unread = 0;
  if ((::poll(&state, 1, 0) == 1 && (state.revents & (POLLHUP | POLLERR)) != 0) ||
      (::ioctl(fd_, SIOCOUTQ, &unread) == 0 && unread == 0)) {
    return user_->on_received({});
  }
  loop_.schedule(connect_timer_, kLookMs);
}

void OriginConnection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  user_ = nullptr;
  loop_.cancel(connect_timer_);
  loop_.cancel(send_timer_);
  if (connect_.pending()) loop_.cancel(connect_);
  if (send_.pending()) loop_.cancel(send_);
  if (receive_.armed()) loop_.receive_stop(receive_);
  drop_queue();
  finish_if_idle();
}

bool OriginConnection::idle() const {
  return !connect_.pending() && !send_.pending() && receive_.idle();
}

void OriginConnection::finish_if_idle() {
  if (state_ == State::kClosed && idle()) loop_.turn().post_destroy(destroy_);
}

}  // namespace corehttpd::upstream
