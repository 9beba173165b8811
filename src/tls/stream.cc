// A stream's life and its input; stream_handshake.cc, stream_send.cc.
#include "corehttpd/tls/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "corehttpd/base/check.h"
#include "tls/bio.h"
#include "tls/openssl.h"
#include "tls/stream_callbacks.h"

namespace corehttpd::tls {

Stream::Stream(int fd, io::Loop& loop, const Store& store, HandshakeOwner& owner)
    : loop_(loop),
      store_(store),
      owner_(&owner),
      fd_(fd),
      send_([](io::Operation& operation,
               int result) { static_cast<SendOperation&>(operation).stream.on_sent(result); },
            *this),
      receive_(
          *this, [](io::ReceiveState& state) { static_cast<Receive&>(state).stream.on_stopped(); },
          *this),
      turn_([](TurnTask& task) { static_cast<Task&>(task).stream.on_turn(); }, *this) {
  if (store.base() == nullptr) return;
  ssl_ = SSL_new(store.base());
  if (ssl_ == nullptr) return;
  SSL_set_app_data(ssl_, this);
  BIO* bio = make_stream_bio(*this);
  CORE_CHECK(bio != nullptr);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_accept_state(ssl_);
  if (store.early_data() && store.replay_guard() != nullptr) early_ = Early::kTrying;
}

Stream::~Stream() {
  CORE_DCHECK(idle());
  if (ssl_ != nullptr) SSL_free(ssl_);
}

void Stream::start() { loop_.receive(fd_, receive_); }

void Stream::on_received(std::span<const std::byte> data) {
  if (data.empty()) return end_input(0);
  // Behind the client's own end (close_notify) nothing is read.
  if (ended_ && state_ != State::kOffloaded) return;
  switch (state_) {
    case State::kHello: {
      // A record of a handshake, or what SSL 2 began with (the library refuses it).
      const auto first = std::to_integer<unsigned>(data.front());
      if (first != SSL3_RT_HANDSHAKE && (first & 0x80) == 0) {
        held_.assign(data.begin(), data.end());
        return begin_plain();
      }
      state_ = State::kHandshake;
      [[fallthrough]];
    }
    case State::kHandshake:
      input_ = data;
      shake_hands();
      break;
    case State::kOffloaded:
      // An honest client waits for our answer.
      if (later_.size() + data.size() > kLaterMax) {
        ended_ = true;
        end_errno_ = EPROTO;
      } else if (!ended_) {
        later_.insert(later_.end(), data.begin(), data.end());
      }
      return;
    case State::kPlain:
      held_.insert(held_.end(), data.begin(), data.end());
      return;
    case State::kOpen:
      input_ = data;
      if (finishing()) {
        finish_early();
      } else {
        decrypt();
        flush();
      }
      break;
    case State::kFailed:
      return;
  }
  keep_input();
}

void Stream::on_receive_error(int errno_value) { end_input(errno_value); }

// What nobody has taken yet must outlive the loop's call.
void Stream::keep_input() {
  held_.insert(held_.end(), input_.begin(), input_.end());
  input_ = {};
}

std::size_t Stream::take_input(std::byte* into, std::size_t length) {
  if (held_used_ < held_.size()) {
    const std::size_t count = std::min(length, held_.size() - held_used_);
    std::memcpy(into, held_.data() + held_used_, count);
    held_used_ += count;
    if (held_used_ == held_.size()) {
      std::vector<std::byte>().swap(held_);
      held_used_ = 0;
    }
    return count;
  }
  const std::size_t count = std::min(length, input_.size());
  if (count != 0) std::memcpy(into, input_.data(), count);
  input_ = input_.subspan(count);
  return count;
}

// All that has come is decrypted at once, whether it is wanted or not: it is not more than a
// receive's buffer and a record.
void Stream::decrypt() {
  static thread_local std::array<std::byte, SSL3_RT_MAX_PLAIN_LENGTH> plain;
  while (state_ == State::kOpen && !closing_ && user_ != nullptr) {
    // One that demands new keys again and again, and reads nothing of what that leads to.
    if (output_.bytes() > kOutputMax) return fail_input("SSL_read()");
    if (early_ != Early::kNone && !read_early(plain)) return;
    // The library finds out at some length that there is nothing.
    if (held_.empty() && input_.empty() && SSL_has_pending(ssl_) == 0) return;
    std::size_t count = 0;
    expect_no_errors();
    const int result = SSL_read_ex(ssl_, plain.data(), plain.size(), &count);
    if (result == 1) {
      deliver(*user_, std::span(plain).first(count));
      continue;
    }
    switch (SSL_get_error(ssl_, result)) {
      case SSL_ERROR_WANT_READ:
        return;
      case SSL_ERROR_ZERO_RETURN:
        return end_input(0);
      default:
        return fail_input("SSL_read()");
    }
  }
}

// The library has queued an alert that says what was wrong.
void Stream::fail_input(const char* call) {
  problem_ = std::make_unique<std::string>(
      std::string(call) + " failed (SSL: " + take_error("too much to answer") + ")");
  state_ = State::kFailed;
  if (!send_.pending()) send_now();
  end_input(EPROTO);
}

void Stream::end_input(int errno_value) {
  if (ended_) return;
  ended_ = true;
  end_errno_ = errno_value;
  if (finishing()) return end_finishing();
  switch (state_) {
    case State::kHello:
    case State::kHandshake:
      return fail_handshake(errno_value == 0 ? "peer closed connection in SSL handshake"
                                             : "recv() failed in SSL handshake",
                            true);
    case State::kOffloaded:
    case State::kPlain:
      return;
    case State::kOpen:
    case State::kFailed:
      return tell_end();
  }
}

void Stream::tell_end() {
  if (!ended_ || end_told_ || user_ == nullptr || !user_->armed() || has_parked(*user_)) return;
  end_told_ = true;
  end(*user_, end_errno_);
}

void Stream::receive(io::ReceiveState& state) {
  user_ = &state;
  arm(state);
  if (!ended_) loop_.receive(fd_, receive_);
  loop_.turn().post(turn_);
}

void Stream::receive_stop(io::ReceiveState& state) {
  ask_stop(state);
  loop_.receive_stop(receive_);
}

void Stream::receive_idle(io::ReceiveState&) {
  output_.release_storage();
  loop_.receive_idle(receive_);
}

// The loop has let go of the descriptor.
void Stream::on_stopped() {
  if (state_ == State::kPlain && owner_ != nullptr) {
    receive_.take_parked(this, [](void* stream, std::span<const std::byte> bytes) {
      auto& held = static_cast<Stream*>(stream)->held_;
      held.insert(held.end(), bytes.begin(), bytes.end());
    });
    return std::exchange(owner_, nullptr)->on_plain_text();
  }
  if (user_ != nullptr && !user_->armed()) let_go(*user_);
  tell_idle();
}

void Stream::on_turn() {
  if (operation_ != nullptr && !send_.pending() && (cancelled_ || send_error_ != 0)) {
    complete(*std::exchange(operation_, nullptr), cancelled_ ? -ECANCELED : -send_error_);
  }
  if (finishing()) return finish_early();
  if (closing_ || user_ == nullptr) return tell_idle();
  deliver_parked(*user_);
  if (user_->armed()) {
    decrypt();
    flush();
  }
  tell_end();
}

bool Stream::idle() const {
  return !send_.pending() && receive_.idle() && state_ != State::kOffloaded;
}

void Stream::tell_idle() {
  if (when_closed_ != nullptr && idle()) loop_.turn().post(*when_closed_);
}

bool Stream::close(TurnTask& done) {
  if (!closing_ && early() && state_ == State::kOpen && !ended_ && send_error_ == 0)
    begin_finishing();
  if (finishing()) {
    when_closed_ = &done;
    return false;
  }
  if (!std::exchange(closing_, true) && !send_.pending() && send_error_ == 0) {
    say_goodbye();
    send_now(MSG_MORE);  // The descriptor's close is next, and leaves with it.
  }
  if (idle()) return true;
  when_closed_ = &done;
  if (std::exchange(stop_asked_, true)) return false;
  if (send_.pending()) loop_.cancel(send_);
  if (!receive_.idle()) loop_.receive_stop(receive_);
  return false;
}

}  // namespace corehttpd::tls
