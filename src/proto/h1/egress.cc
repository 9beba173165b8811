// Bytes to the client. One operation on the socket at a time.
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "proto/h1/connection.h"

namespace corehttpd::h1 {

// Starts the next send if there is something to send and none is under way: all memory up to the
// first file, of all requests that wait; or a window of that file.
void Connection::flush() {
  if (send_operation().pending() || requests_.empty()) return;
  std::array<iovec, io::Loop::kVectorsMax> vectors;
  std::size_t count = 0;
  bool more = false;
  bool cork = false;
  for (Request* request = requests_.first(); request != nullptr && !more;
       request = requests_.next(*request)) {
    for (Segment& segment : request->output.segments()) {
      if (!segment.in_memory() && count == 0) {
        return loop().send_file(fd_, segment.fd(), segment.file_offset(), segment.length(),
                                send_operation());
      }
      if (!segment.in_memory() || count == vectors.size()) {
        more = true;
        cork = request->exchange.settings<http::CoreSettings>().tcp_nopush;
        break;
      }
      vectors[count++] = {const_cast<std::byte*>(segment.bytes()), segment.length()};
    }
  }
  if (count == 0) return;
  // Over TLS the end is said in bytes of its own.
  const bool hold = more ? cork : !over_tls() && ends_with_this_send();
  send({vectors.data(), count}, hold);
}

// The socket is closed as soon as all that is queued is with the kernel, which then sends the end
// of the connection in the same segment as the last bytes.
bool Connection::ends_with_this_send() {
  return last_request_ && request_count_ == 1 && requests_.first()->produced && !unread_input_;
}

void Connection::on_send_complete(int result) {
  if (state_ == State::kClosing) return continue_close();
  if (state_ != State::kOpen) return;
  if (result < 0) {
    if (result == -EINTR || result == -EAGAIN) return flush();
    return lose(error_from_errno(-result, "send()"));
  }
  if (result == 0) {
    // Only a file can run dry; the promised length can't be kept.
    for (const Segment& segment : requests_.front().output.segments()) {
      if (segment.in_memory()) continue;
      requests_.front().exchange.log(LogLevel::kAlert, 0,
                                     "file was truncated at {} bytes while it was sent",
                                     segment.file_offset());
      break;
    }
    return lose(Error{Code::kSystem, Party::kSelf, 0, "file was truncated while it was sent"});
  }
  send_progress_ = true;
  auto left = static_cast<std::size_t>(result);
  for (Request* request = requests_.first(); request != nullptr && left != 0;
       request = requests_.next(*request)) {
    left = request->take_sent(left);
  }
  retire();
  advance();
}

// Ends the requests whose responses are gone, in order. One whose body is still being read past
// stays until that is done.
void Connection::retire() {
  const bool was_running = running_;
  running_ = true;
  while (Request* request = requests_.first()) {
    if (!request->produced || !request->output.empty()) break;
    if (!std::exchange(request->logged, true)) request->exchange.on_sent();
    if (state_ != State::kOpen) break;
    if (request == current()) {
      if (request->keep_alive && !request->body.done) break;
      if (!request->keep_alive) last_request_ = true;
      unread_input_ |= !request->body.done;
      serving_ = false;
    }
    request->ListHook<QueueTag>::unlink();
    --request_count_;
    context_.services.turn.post_destroy(*request);
  }
  running_ = was_running;
}

}  // namespace corehttpd::h1
