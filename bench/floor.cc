// The floor: what the loop and the kernel cost when nothing is parsed and nothing is decided.
// Answers every "\r\n\r\n" with the same 200 and a body of the given size. The server's CPU per
// request is measured against it.
//
//   floor port body_bytes [workers [close]]
//
// close: 1 ends each connection after its first response, whose last segment carries the FIN.
//
// Listens on 127.0.0.1; port 0 takes any and prints it. Ends with SIGTERM or SIGINT. More than one
// worker share the listener.
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "corehttpd/base/text.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/io/socket.h"

namespace corehttpd {
namespace {

std::string response;
bool closes = false;

class Connection final : public io::Receiver {
 public:
  Connection(io::Loop& loop, int fd)
      : loop_(loop), fd_(fd), receive_(*this, stopped), send_(*this), destroy_(*this) {
    loop_.receive(fd_, receive_);
  }
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  struct Send : io::Operation {
    explicit Send(Connection& c)
        : Operation(
              [](Operation& self, int result) { static_cast<Send&>(self).owner.on_sent(result); }),
          owner(c) {}
    Connection& owner;
  };
  struct Destroy : TurnTask {
    explicit Destroy(Connection& c)
        : TurnTask([](TurnTask& self) { delete &static_cast<Destroy&>(self).owner; }), owner(c) {}
    Connection& owner;
  };

  void on_received(std::span<const std::byte> data) override {
    if (data.empty()) return finish();
    for (const std::byte byte : data) {
      // The blank line's four bytes, also when they come in pieces.
      constexpr std::string_view kEnd = "\r\n\r\n";
      const char c = static_cast<char>(byte);
      matched_ = c == kEnd[matched_] ? matched_ + 1 : (c == '\r' ? 1 : 0);
      if (matched_ == kEnd.size()) {
        matched_ = 0;
        unsent_ += response.size();
        if (closes) {
          loop_.receive_stop(receive_);
          break;
        }
      }
    }
    if (!send_.pending()) send();
  }
  void on_receive_error(int) override { finish(); }
  static void stopped(io::ReceiveState& state) {
    static_cast<Connection&>(state.receiver()).finish();
  }

  void send() {
    if (unsent_ == 0) return;
    const std::size_t first = response.size() - (unsent_ - 1) % response.size() - 1;
    const iovec vector{response.data() + first, response.size() - first};
    loop_.send(fd_, {&vector, 1}, closes || unsent_ > vector.iov_len, send_);
  }
  void on_sent(int result) {
    if (result < 0) failed_ = true;
    if (failed_) return finish();
    unsent_ -= static_cast<std::size_t>(result);
    if (unsent_ != 0) {
      send();
    } else if (!receive_.armed()) {
      finish();
    }
  }
  // Called again by whatever is still under way.
  void finish() {
    if (receive_.armed()) return loop_.receive_stop(receive_);
    if (!receive_.idle() || send_.pending()) return;
    if (unsent_ != 0 && !failed_) return send();
    loop_.turn().post_destroy(destroy_);
  }

  io::Loop& loop_;
  int fd_;
  io::ReceiveState receive_;
  Send send_;
  Destroy destroy_;
  std::size_t unsent_ = 0;  // Of one or more responses, the last one whole.
  std::size_t matched_ = 0;
  bool failed_ = false;
};

class Acceptor : public io::Operation {
 public:
  Acceptor(io::Loop& loop, int listener)
      : Operation(
            [](Operation& self, int result) { static_cast<Acceptor&>(self).on_accepted(result); }),
        loop_(loop),
        listener_(listener) {
    loop_.accept(listener_, peer_, *this);
  }

 private:
  void on_accepted(int fd) {
    if (fd >= 0) {
      io::set_no_delay(fd, true);
      new Connection(loop_, fd);  // Deletes itself.
    }
    loop_.accept(listener_, peer_, *this);
  }
  io::Loop& loop_;
  int listener_;
  sockaddr_storage peer_{};
};

volatile sig_atomic_t ending = 0;
io::Loop* signalled_loop = nullptr;

int serve(int listener) {
  auto loop = io::make_ring_loop({});
  if (!loop) {
    fmt::print(stderr, "floor: {}\n", io::explain_ring_failure(loop.error().detail));
    return 1;
  }
  signalled_loop = loop->get();
  struct sigaction action {};
  action.sa_handler = [](int) {
    ending = 1;
    signalled_loop->wake();
  };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  Acceptor acceptor(**loop, listener);
  while (ending == 0) (*loop)->run_once();
  // Connections end with the process.
  _exit(0);
}

int run(int port, std::size_t body_bytes, int workers) {
  response = fmt::format(
      "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
      body_bytes);
  response.append(body_bytes, 'x');
  io::Address address = *io::parse_address("127.0.0.1:1", 0);
  address.set_port(static_cast<std::uint16_t>(port));
  const auto listener = io::listen_on(address, {});
  if (!listener) {
    fmt::print(stderr, "floor: {} failed ({})\n", listener.error().context,
               listener.error().detail);
    return 1;
  }
  fmt::print("{}\n", io::local_address(*listener)->port());
  std::fflush(stdout);
  for (int i = 1; i < workers; ++i) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      return serve(*listener);
    }
  }
  return serve(*listener);
}

}  // namespace
}  // namespace corehttpd

int main(int argc, char** argv) {
  const auto number = [&](int index, std::uint64_t otherwise, std::uint64_t most) -> std::uint64_t {
    if (index >= argc) return otherwise;
    const auto value = corehttpd::text::parse_decimal(argv[index]);
    if (value && *value <= most) return *value;
    fmt::print(stderr, "usage: floor port body_bytes [workers [close]]\n");
    std::exit(2);
  };
  const auto port = static_cast<int>(number(1, 0, 65535));
  const auto body_bytes = static_cast<std::size_t>(number(2, 612, 1 << 30));
  const auto workers = static_cast<int>(number(3, 1, 256));
  corehttpd::closes = number(4, 0, 1) == 1;
  return corehttpd::run(port, body_bytes, std::max(workers, 1));
}
