// A stream's output: plain text into records, records into one send at a time.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "corehttpd/tls/stream.h"
#include "tls/openssl.h"

namespace corehttpd::tls {

bool Stream::Output::append(std::span<const std::byte> bytes, BlockPool& blocks) {
  while (!bytes.empty()) {
    if (blocks_.empty() || end_ == blocks_.back()->capacity()) {
      BlockRef block = blocks.take();
      if (!block) return false;
      blocks_.push_back(std::move(block));
      end_ = 0;
    }
    const std::size_t count = std::min(bytes.size(), blocks_.back()->capacity() - end_);
    std::memcpy(blocks_.back()->data() + end_, bytes.data(), count);
    end_ += count;
    bytes_ += count;
    bytes = bytes.subspan(count);
  }
  return true;
}

std::size_t Stream::Output::gather(std::span<iovec> into) const {
  const std::size_t count = std::min(into.size(), blocks_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i == 0 ? first_ : 0;
    const std::size_t end = i + 1 == blocks_.size() ? end_ : blocks_[i]->capacity();
    into[i] = {blocks_[i]->data() + begin, end - begin};
  }
  return count;
}

void Stream::Output::consume(std::size_t count) {
  bytes_ -= count;
  if (bytes_ == 0) return clear();
  std::size_t whole = 0;
  first_ += count;
  while (first_ >= blocks_[whole]->capacity()) first_ -= blocks_[whole++]->capacity();
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(whole));
}

void Stream::Output::clear() {
  blocks_.clear();
  first_ = end_ = bytes_ = 0;
}

void Stream::Output::release_storage() {
  if (blocks_.empty()) std::vector<BlockRef>().swap(blocks_);
}

bool Stream::put_output(const std::byte* from, std::size_t length) {
  if (state_ == State::kOffloaded) {
    task_->output.insert(task_->output.end(), from, from + length);
    return true;
  }
  appended_ += length;
  return output_.append({from, length}, loop_.blocks());
}

void Stream::send(std::span<const iovec> data, bool more, io::Operation& operation) {
  begin(operation);
  operation_ = &operation;
  more_ = more;
  if (state_ != State::kOpen && send_error_ == 0) send_error_ = EPIPE;
  if (send_error_ == 0) encrypt(data, unreported_);
  if (send_error_ != 0) return loop_.turn().post(turn_);
  flush();
}

// What the last call has encrypted and not yet reported stands at the front of data again.
void Stream::encrypt(std::span<const iovec> data, std::size_t skip) {
  static thread_local std::array<std::byte, SSL3_RT_MAX_PLAIN_LENGTH> record;
  std::size_t room = kSendMax;
  std::size_t filled = 0;
  bool ok = true;
  for (const iovec& piece : data) {
    const std::size_t known = std::min(skip, piece.iov_len);
    skip -= known;
    const auto* bytes = static_cast<const std::byte*>(piece.iov_base) + known;
    std::size_t left = std::min(piece.iov_len - known, room);
    if (left < piece.iov_len - known) more_ = true;
    room -= left;
    while (ok && left != 0) {
      const std::size_t size = record_size();
      const std::size_t count = std::min(left, size - std::min(filled, size));
      if (filled == 0 && left >= size) {
        ok = write_record(bytes, size);
      } else {
        // Pieces that are smaller share a record: a head and the body behind it, mostly.
        std::memcpy(record.data() + filled, bytes, count);
        filled += count;
        if (filled >= size) ok = write_record(record.data(), std::exchange(filled, 0));
      }
      bytes += count;
      left -= count;
    }
  }
  if (ok && filled != 0) ok = write_record(record.data(), filled);
  if (!ok) {
    send_error_ = EPIPE;
    return;
  }
  mark_ = appended_;
  span_plain_ = unreported_;
  span_cipher_ = mark_ - sent_;
}

std::size_t Stream::record_size() {
  const Settings& s = *policy_->settings;
  const std::size_t full = std::clamp<std::uint64_t>(s.buffer_size, 512, SSL3_RT_MAX_PLAIN_LENGTH);
  if (!s.dynamic_records) return full;
  if (small_records_ < s.dynamic_threshold) return std::min(full, s.dynamic_size_low);
  if (small_records_ < 2 * s.dynamic_threshold) return std::min(full, s.dynamic_size_high);
  return full;
}

bool Stream::write_record(const std::byte* bytes, std::size_t length) {
  const Settings& s = *policy_->settings;
  const Milliseconds now = loop_.clock().now_ms();
  if (now - last_record_ms_ >= s.dynamic_timeout) small_records_ = 0;
  last_record_ms_ = now;
  if (small_records_ < 2 * s.dynamic_threshold) ++small_records_;
  expect_no_errors();
  while (length != 0) {
    std::size_t written = 0;
    const int result = early_ == Early::kNone ? SSL_write_ex(ssl_, bytes, length, &written)
                                              : SSL_write_early_data(ssl_, bytes, length, &written);
    if (result != 1) {
      ERR_clear_error();
      return false;
    }
    unreported_ += written;
    bytes += written;
    length -= written;
  }
  return true;
}

void Stream::flush() {
  if (send_.pending() || output_.empty() || send_error_ != 0 || closing_) return;
  std::array<iovec, io::Loop::kVectorsMax> vectors;
  const std::size_t count = output_.gather(vectors);
  const bool more = more_ && operation_ != nullptr;
  loop_.send(fd_, std::span(vectors).first(count), more, send_);
}

void Stream::on_sent(int result) {
  const bool again = result == -EINTR || result == -EAGAIN;
  if (result > 0) {
    output_.consume(static_cast<std::size_t>(result));
    sent_ += static_cast<std::uint64_t>(result);
  } else if (!again) {
    send_error_ = result == 0 ? EPIPE : -result;
  }
  if (operation_ != nullptr) {
    int report = take_report();
    if (cancelled_) report = -ECANCELED;
    if (send_error_ != 0) report = -send_error_;
    if (report != 0) complete(*std::exchange(operation_, nullptr), report);
  }
  if (closing_) return tell_idle();
  flush();
  if (shutdown_due_ && !send_.pending()) ::shutdown(fd_, SHUT_WR);
}

// How much of the plain text has left, by the share of the encrypted bytes that has: exact at the
// end of each call's worth, so that a response counts as sent when its last record is.
int Stream::take_report() {
  const std::uint64_t left = mark_ > sent_ ? mark_ - sent_ : 0;
  std::uint64_t plain_left = 0;
  if (left != 0) {
    plain_left = (span_plain_ * left + span_cipher_ - 1) / span_cipher_;
    plain_left = std::min(plain_left, unreported_);
  }
  const std::uint64_t before = std::exchange(unreported_, plain_left);
  return static_cast<int>(before - plain_left);
}

void Stream::cancel(io::Operation& operation) {
  if (operation_ != &operation) return;
  cancelled_ = true;
  if (send_.pending()) {
    loop_.cancel(send_);
  } else {
    loop_.turn().post(turn_);
  }
}

void Stream::say_goodbye() {
  if (state_ != State::kOpen || std::exchange(goodbye_said_, true)) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
}

// Without waiting, for the last words: what the socket has no room for is lost.
void Stream::send_now(int flags) {
  while (!output_.empty() && !send_.pending()) {
    std::array<iovec, io::Loop::kVectorsMax> vectors;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = output_.gather(vectors);
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    output_.consume(static_cast<std::size_t>(sent));
    sent_ += static_cast<std::uint64_t>(sent);
  }
}

void Stream::shut_down_sending() {
  if (early()) {
    shutdown_waits_ = true;
    return;
  }
  say_goodbye();
  if (!send_.pending()) send_now();
  if (output_.empty()) {
    ::shutdown(fd_, SHUT_WR);
    return;
  }
  shutdown_due_ = true;
  flush();
}

}  // namespace corehttpd::tls
