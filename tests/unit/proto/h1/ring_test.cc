// The same connection on the real loop and a real socket: what a simulation can't show.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "corehttpd/io/socket.h"
#include "unit/proto/h1/site.h"

namespace corehttpd::h1::testing {
namespace {

// Blocks for nothing: the loop runs a turn whenever the client has nothing to read.
class RealClient {
 public:
  RealClient(const io::Address& address, io::Loop& loop) : loop_(loop) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd_, address.get(), address.length), 0) << errno;
  }
  ~RealClient() { ::close(fd_); }
  void send(std::string_view text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Until what has come ends so, or the server ends.
  std::string read_until(std::string_view ending) {
    std::string out;
    char buffer[65536];
    for (int turns = 0; !out.ends_with(ending) && turns < kTurnsMax;) {
      const ssize_t got = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0) break;
      if (got > 0) {
        out.append(buffer, static_cast<std::size_t>(got));
        continue;
      }
      // A tick wakes the loop should it have nothing to do itself.
      io::Timer tick([](io::Timer&) {});
      loop_.schedule(tick, 1);
      loop_.run_once();
      ++turns;
    }
    return out;
  }

 private:
  static constexpr int kTurnsMax = 20'000;
  io::Loop& loop_;
  int fd_;
};

TEST(H1OnTheRing, ServesMemoryAndFiles) {
  signal(SIGPIPE, SIG_IGN);
  auto made = io::make_ring_loop({});
  ASSERT_TRUE(made.has_value()) << io::explain_ring_failure(made.error().detail);
  io::Loop& loop = **made;
  TestSite site;  // For its locations; its own loop stays idle.
  http::Services services{loop,         loop.turn(),   loop.blocks(),
                          loop.clock(), site.sites,    site.errors,
                          site.log,     site.counters, {}};
  auto address = *io::parse_address("127.0.0.1:1", 0);
  address.set_port(0);
  const int listener = *io::listen_on(address, {});
  {
    proto::Acceptors acceptors(services, 10);
    acceptors.add(listener, site.endpoint);
    RealClient client(*io::local_address(listener), loop);
    const std::string hello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(hello);
    std::string text = client.read_until("hello");
    EXPECT_EQ(take_answer(text).body, "hello");
    client.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n" + hello);
    text = client.read_until("\r\n\r\nhello");
    EXPECT_TRUE(take_answer(text).body == pattern(3'000'000));
    EXPECT_EQ(take_answer(text).body, "hello");
    client.send("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    text = client.read_until("hello");
    EXPECT_TRUE(take_answer(text).has("Connection: close"));
    acceptors.stop();
    // The client sees the end of the connection; the server has closed it by itself.
    EXPECT_EQ(client.read_until("never"), "");
    for (int i = 0; i < 1000 && !(acceptors.stopped() && acceptors.connections().empty()); ++i) {
      io::Timer tick([](io::Timer&) {});
      loop.schedule(tick, 1);
      loop.run_once();
    }
    EXPECT_TRUE(acceptors.stopped());
    EXPECT_TRUE(acceptors.connections().empty());
  }
  ::close(listener);
}

}  // namespace
}  // namespace corehttpd::h1::testing
