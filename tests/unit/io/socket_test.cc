#include "corehttpd/io/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace corehttpd::io {
namespace {

std::string parsed(std::string_view text, std::uint16_t default_port = 80) {
  const auto address = parse_address(text, default_port);
  return address ? address->to_string() : address.error().context;
}

TEST(ParseAddress, NginxForms) {
  EXPECT_EQ("127.0.0.1:80", parsed("127.0.0.1"));
  EXPECT_EQ("127.0.0.1:8080", parsed("127.0.0.1:8080"));
  EXPECT_EQ("[::1]:80", parsed("[::1]"));
  EXPECT_EQ("[::1]:443", parsed("[::1]:443"));
  EXPECT_EQ("[2001:db8::1]:65535", parsed("[2001:DB8:0::1]:65535"));
  EXPECT_EQ("[::ffff:192.0.2.1]:80", parsed("[::ffff:192.0.2.1]"));
  EXPECT_EQ("[::]:80", parsed("[::]:80"));
  EXPECT_EQ("0.0.0.0:81", parsed("*:81"));
  EXPECT_EQ("0.0.0.0:80", parsed("*"));
  EXPECT_EQ("0.0.0.0:8000", parsed("8000"));
  EXPECT_EQ("unix:/run/php.sock", parsed("unix:/run/php.sock"));
  EXPECT_EQ("127.0.0.1:9000", parsed("127.0.0.1:9000", 0));
}

TEST(ParseAddress, Refusals) {
  EXPECT_EQ("no port", parsed("127.0.0.1", 0));
  EXPECT_EQ("invalid port", parsed("127.0.0.1:"));
  EXPECT_EQ("invalid port", parsed("127.0.0.1:0"));
  EXPECT_EQ("invalid port", parsed("127.0.0.1:65536"));
  EXPECT_EQ("invalid port", parsed("127.0.0.1:80x"));
  EXPECT_EQ("invalid port", parsed("127.0.0.1:-1"));
  EXPECT_EQ("invalid port", parsed("99999999999999999999"));
  EXPECT_EQ("invalid port", parsed("a:b:c"));
  EXPECT_EQ("invalid IPv6 address", parsed("[::1"));
  EXPECT_EQ("invalid IPv6 address", parsed("[::1]80"));
  EXPECT_EQ("invalid IPv6 address", parsed("[fe80::1%eth0]:80"));
  EXPECT_EQ("invalid IPv6 address", parsed("[127.0.0.1]:80"));
  EXPECT_EQ("invalid IPv6 address", parsed("[1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:1:2:3:4:5:6:7:8]:80"));
  EXPECT_EQ("no host", parsed(":80"));
  EXPECT_EQ("no host", parsed(""));
  EXPECT_EQ("no host", parsed("[]:80"));
  EXPECT_EQ("invalid host", parsed("exa mple:80"));
  EXPECT_EQ("no path in the unix domain socket", parsed("unix:"));
  EXPECT_EQ("unix:" + std::string(107, 'p'), parsed("unix:" + std::string(107, 'p')));
  EXPECT_EQ("too long path in the unix domain socket", parsed("unix:" + std::string(108, 'p')));
  // Names are another function's business, as are addresses that only look like one.
  for (const char* name : {"example.org:80", "localhost", "300.1.1.1:80", "127.1:80"}) {
    const auto address = parse_address(name, 80);
    ASSERT_FALSE(address) << name;
    EXPECT_EQ(Code::kNotFound, address.error().code) << name;
  }
}

TEST(ParseAddress, SplitsNames) {
  const auto parts = split_host_port("example.org:8080", 80);
  ASSERT_TRUE(parts);
  EXPECT_EQ("example.org", parts->host);
  EXPECT_EQ(8080, parts->port);
  EXPECT_EQ(80, split_host_port("example.org", 80)->port);
  EXPECT_EQ("::1", split_host_port("[::1]:1", 80)->host);
}

TEST(Address, Parts) {
  Address v4 = *parse_address("10.1.2.3:80", 0);
  EXPECT_EQ(AF_INET, v4.family());
  EXPECT_EQ(80, v4.port());
  EXPECT_EQ("10.1.2.3", v4.host());
  EXPECT_FALSE(v4.is_wildcard());
  v4.set_port(8443);
  EXPECT_EQ("10.1.2.3:8443", v4.to_string());
  const Address v6 = *parse_address("[::]:1", 0);
  EXPECT_TRUE(v6.is_wildcard());
  EXPECT_EQ("::", v6.host());
  EXPECT_TRUE(parse_address("*:1", 0)->is_wildcard());
  const Address un = *parse_address("unix:/a", 0);
  EXPECT_TRUE(un.is_unix());
  EXPECT_EQ(0, un.port());
  EXPECT_EQ("unix:", un.host());
  EXPECT_FALSE(un.is_wildcard());
}

TEST(Address, Equality) {
  const auto equal = [](const char* a, const char* b) {
    return *parse_address(a, 80) == *parse_address(b, 80);
  };
  EXPECT_TRUE(equal("127.0.0.1", "127.0.0.1:80"));
  EXPECT_FALSE(equal("127.0.0.1", "127.0.0.1:81"));
  EXPECT_FALSE(equal("127.0.0.1", "127.0.0.2"));
  EXPECT_TRUE(equal("[::1]", "[0:0::1]:80"));
  EXPECT_FALSE(equal("[::]", "*"));
  EXPECT_TRUE(equal("unix:/a", "unix:/a"));
  EXPECT_FALSE(equal("unix:/a", "unix:/ab"));
}

TEST(Resolve, NumericAndMissingNames) {
  const auto v4 = resolve("127.0.0.1", 81);
  ASSERT_TRUE(v4);
  EXPECT_EQ("127.0.0.1:81", v4->to_string());
  const auto localhost = resolve("localhost", 82);
  ASSERT_TRUE(localhost);
  EXPECT_EQ(82, localhost->port());
  EXPECT_FALSE(resolve("name.invalid", 80));
}

Address loopback() {
  Address address = *parse_address("127.0.0.1:1", 0);
  address.set_port(0);
  return address;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(0, getsockopt(fd, level, name, &value, &length));
  return value;
}

TEST(ListenOn, TcpSocketIsReadyToAccept) {
  const auto fd = listen_on(loopback(), {});
  ASSERT_TRUE(fd);
  EXPECT_EQ(1, option(*fd, SOL_SOCKET, SO_ACCEPTCONN));
  EXPECT_EQ(1, option(*fd, SOL_SOCKET, SO_REUSEADDR));
  EXPECT_EQ(0, option(*fd, SOL_SOCKET, SO_REUSEPORT));
  const auto bound = local_address(*fd);
  ASSERT_TRUE(bound);
  EXPECT_NE(0, bound->port());
  // A second listener on the address is refused, unless both share it.
  const auto taken = listen_on(*bound, {});
  ASSERT_FALSE(taken);
  EXPECT_EQ(EADDRINUSE, taken.error().detail);
  close(*fd);
  const auto first = listen_on(loopback(), {.reuse_port = true});
  const auto second = listen_on(*local_address(*first), {.reuse_port = true});
  EXPECT_TRUE(second);
  close(*first);
  close(*second);
}

TEST(ListenOn, Ipv6OnlyIsAnOption) {
  // The wildcard: a socket bound to one IPv6 address is limited to it anyway.
  Address address = *parse_address("[::]:1", 0);
  address.set_port(0);
  const auto only = listen_on(address, {});
  if (!only) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(1, option(*only, IPPROTO_IPV6, IPV6_V6ONLY));
  const auto both = listen_on(address, {.ipv6_only = false});
  EXPECT_EQ(0, option(*both, IPPROTO_IPV6, IPV6_V6ONLY));
  close(*only);
  close(*both);
}

TEST(ListenOn, UnixSocketReplacesAnOrphanButNoLiveOne) {
  const std::string path = "/tmp/corehttpd-socket-test-" + std::to_string(getpid()) + ".sock";
  const Address address = *parse_address("unix:" + path, 0);
  const auto first = listen_on(address, {});
  ASSERT_TRUE(first);
  struct stat status {};
  ASSERT_EQ(0, stat(path.c_str(), &status));
  EXPECT_EQ(0666U, status.st_mode & 0777);
  const auto refused = listen_on(address, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(EADDRINUSE, refused.error().detail);
  EXPECT_EQ("unix:" + path, local_address(*first)->to_string());
  close(*first);
  const auto second = listen_on(address, {});
  EXPECT_TRUE(second) << "the file outlived its listener";
  close(*second);
  unlink(path.c_str());
  // A file that is no socket is not ours to remove.
  const int file = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  close(file);
  EXPECT_FALSE(listen_on(address, {}));
  EXPECT_EQ(0, unlink(path.c_str()));
}

TEST(ListenOn, ForeignAddressFails) {
  // TEST-NET-1 (RFC 5737) belongs to no host.
  const auto fd = listen_on(*parse_address("192.0.2.1:8080", 0), {});
  ASSERT_FALSE(fd);
  EXPECT_EQ(EADDRNOTAVAIL, fd.error().detail);
}

TEST(ListenOn, ForeignAddressCanBeWaitedFor) {
  for (const char* text : {"192.0.2.1:1", "[2001:db8::1]:1"}) {
    Address address = *parse_address(text, 0);
    address.set_port(0);
    const auto fd = listen_on(address, {.absent_address = true});
    if (!fd && address.family() == AF_INET6) GTEST_SKIP() << "no IPv6 here";
    ASSERT_TRUE(fd) << text;
    EXPECT_EQ(1, option(*fd, SOL_SOCKET, SO_ACCEPTCONN));
    close(*fd);
  }
}

TEST(ListenOn, OptionsReachTheSocketAndCanBeChanged) {
  const auto fd = listen_on(loopback(), {.receive_buffer = 20'000,
                                         .send_buffer = 30'000,
                                         .defer_seconds = 10,
                                         .fast_open = 7,
                                         .keep_alive = ListenOptions::KeepAlive::kOn,
                                         .keep_idle_seconds = 61,
                                         .keep_interval_seconds = 11,
                                         .keep_probes = 3});
  ASSERT_TRUE(fd);
  EXPECT_EQ(40'000, option(*fd, SOL_SOCKET, SO_RCVBUF));  // The kernel doubles.
  EXPECT_EQ(60'000, option(*fd, SOL_SOCKET, SO_SNDBUF));
  EXPECT_GE(option(*fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), 10);
  EXPECT_EQ(7, option(*fd, IPPROTO_TCP, TCP_FASTOPEN));
  EXPECT_EQ(1, option(*fd, SOL_SOCKET, SO_KEEPALIVE));
  EXPECT_EQ(61, option(*fd, IPPROTO_TCP, TCP_KEEPIDLE));
  EXPECT_EQ(11, option(*fd, IPPROTO_TCP, TCP_KEEPINTVL));
  EXPECT_EQ(3, option(*fd, IPPROTO_TCP, TCP_KEEPCNT));
  const Address address = *local_address(*fd);
  configure_listener(*fd, address,
                     {.receive_buffer = 25'000, .keep_alive = ListenOptions::KeepAlive::kOff});
  EXPECT_EQ(50'000, option(*fd, SOL_SOCKET, SO_RCVBUF));
  EXPECT_EQ(0, option(*fd, SOL_SOCKET, SO_KEEPALIVE));
  EXPECT_EQ(0, option(*fd, IPPROTO_TCP, TCP_DEFER_ACCEPT));
  EXPECT_EQ(1, option(*fd, SOL_SOCKET, SO_ACCEPTCONN));
  close(*fd);
}

TEST(Backlog, IsTheSystemsLimit) { EXPECT_GE(largest_backlog(), 1); }

TEST(Socket, NoDelay) {
  const auto fd = open_stream_socket(AF_INET);
  ASSERT_TRUE(fd);
  set_no_delay(*fd, true);
  EXPECT_EQ(1, option(*fd, IPPROTO_TCP, TCP_NODELAY));
  set_no_delay(*fd, false);
  EXPECT_EQ(0, option(*fd, IPPROTO_TCP, TCP_NODELAY));
  close(*fd);
}

}  // namespace
}  // namespace corehttpd::io
