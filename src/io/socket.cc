#include "corehttpd/io/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

namespace corehttpd::io {
namespace {

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::unexpected<Error> system_error(const char* context) {
  return std::unexpected(error_from_errno(errno, context));
}

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// A socket file that nobody listens on any more. A connection that is refused is the only proof; a
// full backlog is not.
bool is_orphan(const Address& address) {
  const char* path = reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
  struct stat status {};
  if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const OwnedFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return probe.get() >= 0 && connect(probe.get(), address.get(), address.length) < 0 &&
         errno == ECONNREFUSED;
}

Result<> bind_unix(int fd, const Address& address) {
  const char* path = reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
  if (bind(fd, address.get(), address.length) < 0) {
    if (errno != EADDRINUSE) return system_error("bind()");
    if (!is_orphan(address)) return fail(Code::kSystem, "bind()", EADDRINUSE);
    if (unlink(path) < 0) return system_error("unlink()");
    if (bind(fd, address.get(), address.length) < 0) return system_error("bind()");
  }
  // As nginx does: who may enter the directory may connect.
  if (chmod(path, 0666) < 0) return system_error("chmod()");
  return {};
}

Result<> bind_inet(int fd, const Address& address, const ListenOptions& options) {
  if (!set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1)) return system_error("setsockopt(SO_REUSEADDR)");
  if (options.reuse_port && !set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1))
    return system_error("setsockopt(SO_REUSEPORT)");
  if (address.family() == AF_INET6 &&
      !set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only ? 1 : 0)) {
    return system_error("setsockopt(IPV6_V6ONLY)");
  }
  // One option for both families.
  if (options.absent_address && !set_option(fd, IPPROTO_IP, IP_FREEBIND, 1))
    return system_error("setsockopt(IP_FREEBIND)");
  if (bind(fd, address.get(), address.length) < 0) return system_error("bind()");
  return {};
}

// Before listen(), since accepted sockets inherit them and TCP's window scale follows from the
// receive buffer. Refusals are not fatal: the kernel cuts to its limits anyway, and a connection
// without such an option still is one.
void set_socket_options(int fd, const ListenOptions& options, bool tcp) {
  if (options.receive_buffer > 0)
    (void)set_option(fd, SOL_SOCKET, SO_RCVBUF, options.receive_buffer);
  if (options.send_buffer > 0) (void)set_option(fd, SOL_SOCKET, SO_SNDBUF, options.send_buffer);
  if (!tcp) return;
  using KeepAlive = ListenOptions::KeepAlive;
  if (options.keep_alive != KeepAlive::kSystem)
    (void)set_option(fd, SOL_SOCKET, SO_KEEPALIVE, options.keep_alive == KeepAlive::kOn ? 1 : 0);
  if (options.keep_idle_seconds > 0)
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, options.keep_idle_seconds);
  if (options.keep_interval_seconds > 0)
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, options.keep_interval_seconds);
  if (options.keep_probes > 0) (void)set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options.keep_probes);
  // Off is said too: a reload may take them back.
  (void)set_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, options.defer_seconds);
}

int backlog_of(const ListenOptions& options) {
  return options.backlog > 0 ? options.backlog : largest_backlog();
}

// After listen(), which the kernel wants first.
void set_fast_open(int fd, const ListenOptions& options, bool tcp) {
  if (tcp && options.fast_open > 0)
    (void)set_option(fd, IPPROTO_TCP, TCP_FASTOPEN, options.fast_open);
}

}  // namespace

int largest_backlog() {
  constexpr int kDefault = 4096;
  const OwnedFd file(open("/proc/sys/net/core/somaxconn", O_RDONLY | O_CLOEXEC));
  char text[16];
  const ssize_t size = file.get() < 0 ? -1 : read(file.get(), text, sizeof text);
  int value = 0;
  if (size <= 0 || std::from_chars(text, text + size, value).ec != std::errc() || value <= 0)
    return kDefault;
  return value;
}

Result<int> open_stream_socket(int family) {
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("socket()");
  return fd;
}

Result<int> listen_on(const Address& address, const ListenOptions& options) {
  OwnedFd fd(CORE_TRY(open_stream_socket(address.family())));
  set_socket_options(fd.get(), options, !address.is_unix());
  if (address.is_unix()) {
    CORE_TRY_VOID(bind_unix(fd.get(), address));
  } else {
    CORE_TRY_VOID(bind_inet(fd.get(), address, options));
  }
  if (listen(fd.get(), backlog_of(options)) < 0) return system_error("listen()");
  set_fast_open(fd.get(), options, !address.is_unix());
  return fd.release();
}

void configure_listener(int fd, const Address& address, const ListenOptions& options) {
  set_socket_options(fd, options, !address.is_unix());
  (void)listen(fd, backlog_of(options));  // Of a socket that listens it changes the backlog.
  set_fast_open(fd, options, !address.is_unix());
}

Result<Address> local_address(int fd) {
  Address address;
  address.length = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) < 0)
    return system_error("getsockname()");
  return address;
}

void set_no_delay(int fd, bool on) { (void)set_option(fd, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0); }

}  // namespace corehttpd::io
