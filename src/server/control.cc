#include "server/control.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace corehttpd::server {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"status", "status json", "reload", "upgrade"};

std::optional<ControlRequest> request_named(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ControlRequest>(i);
  }
  return std::nullopt;
}

// The address of path through an open descriptor of its directory: sun_path holds 107 bytes only,
// and a pid file may lie deeper.
class SocketAddress {
 public:
  explicit SocketAddress(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "."
                                  : slash == 0               ? "/"
                                                             : path.substr(0, slash);
    directory_ = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory_ < 0) return;
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    const std::string short_path = "/proc/self/fd/" + std::to_string(directory_) + "/" + name;
    if (short_path.size() >= sizeof(address_.sun_path)) return;
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, short_path.c_str(), short_path.size() + 1);
  }
  SocketAddress(const SocketAddress&) = delete;
  SocketAddress& operator=(const SocketAddress&) = delete;
  ~SocketAddress() {
    if (directory_ >= 0) ::close(directory_);
  }
  explicit operator bool() const { return address_.sun_family == AF_UNIX; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t length() { return sizeof(sockaddr_un); }

 private:
  sockaddr_un address_{};
  int directory_ = -1;
};

}  // namespace

std::string_view to_string(ControlRequest request) {
  return kNames[static_cast<std::size_t>(request)];
}

std::string control_path(const std::string& pid_path) {
  constexpr std::string_view kEnding = ".pid";
  const std::string stem =
      pid_path.ends_with(kEnding) ? pid_path.substr(0, pid_path.size() - kEnding.size()) : pid_path;
  return stem + ".sock";
}

ControlServer::~ControlServer() { close(false); }

Result<> ControlServer::open(const std::string& path) {
  close(false);
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());
  SocketAddress address(temporary);
  if (!address) return fail(Code::kNotFound, "control socket", errno);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "socket()"));
  // The mode is right from the first moment on: nobody but our own user ever asks.
  const mode_t mask = ::umask(0177);
  const bool bound = ::bind(fd, address.get(), SocketAddress::length()) == 0;
  const int bind_errno = errno;
  ::umask(mask);
  if (!bound || ::listen(fd, kClientsMax) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = bound ? errno : bind_errno;
    ::unlink(temporary.c_str());
    ::close(fd);
    return std::unexpected(error_from_errno(error, "control socket"));
  }
  listener_ = fd;
  path_ = path;
  return {};
}

void ControlServer::close(bool remove_file) {
  for (const Client& client : clients_) ::close(client.fd);
  clients_.clear();
  if (listener_ < 0) return;
  ::close(listener_);
  listener_ = -1;
  if (remove_file) ::unlink(path_.c_str());
}

void ControlServer::add_to(std::vector<pollfd>& polled) const {
  if (listener_ >= 0 && clients_.size() < kClientsMax) polled.push_back({listener_, POLLIN, 0});
  for (const Client& client : clients_) {
    // One whose answer is still to come is only watched for its going away.
    const short events = !client.out.empty() ? POLLOUT : !client.asked ? POLLIN : 0;
    polled.push_back({client.fd, events, 0});
  }
}

void ControlServer::work(Milliseconds now_ms) {
  if (listener_ >= 0) accept_all(now_ms);
  for (auto client = clients_.begin(); client != clients_.end();) {
    if (serve(*client, now_ms)) {
      ++client;
      continue;
    }
    ::close(client->fd);
    client = clients_.erase(client);
  }
}

void ControlServer::accept_all(Milliseconds now_ms) {
  while (clients_.size() < kClientsMax) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    ucred peer{};
    socklen_t length = sizeof(peer);
    // Behind the file's mode, which a careless chmod may have widened.
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        (peer.uid != 0 && peer.uid != ::geteuid())) {
      ::close(fd);
      continue;
    }
    clients_.push_back({next_id_++, fd, now_ms, {}, {}});
  }
}

bool ControlServer::serve(Client& client, Milliseconds now_ms) {
  if (!client.asked) {
    if (!read_line(client)) return false;
    if (client.asked) {
      dispatch(client);
      client.since_ms = now_ms;
    }
  }
  if (!client.out.empty()) {
    const ssize_t sent =
        ::send(client.fd, client.out.data(), client.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) client.out.erase(0, static_cast<std::size_t>(sent));
  }
  if (client.answered && client.out.empty()) return false;
  if (client.asked && !client.answered) {
    // Waits for the outcome; gone if it hung up.
    char byte;
    return ::recv(client.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
  }
  return now_ms - client.since_ms < kPatience;
}

bool ControlServer::read_line(Client& client) {
  char buffer[kLineMax];
  const ssize_t got = ::recv(client.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got == 0) return false;
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  client.in.append(buffer, static_cast<std::size_t>(got));
  client.asked = client.in.find('\n') != std::string::npos;
  return client.asked || client.in.size() < kLineMax;
}

void ControlServer::dispatch(Client& client) {
  const std::string name = client.in.substr(0, client.in.find('\n'));
  if (const auto request = request_named(name)) {
    handler_.on_control(*request, client.id);
  } else {
    answer(client.id, "failed: unknown request\n");
  }
}

void ControlServer::answer(std::uint64_t id, std::string text) {
  for (Client& client : clients_) {
    if (client.id != id) continue;
    client.out = std::move(text);
    client.answered = true;
  }
}

namespace {

// Connected to the master at path.
Result<int> connect_to(const std::string& path) {
  SocketAddress address(path);
  if (!address) return fail(Code::kNotFound, "control socket", errno);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "socket()"));
  if (::connect(fd, address.get(), SocketAddress::length()) == 0) return fd;
  const int error = errno;
  ::close(fd);
  return fail(Code::kNotFound, "connect() to the control socket", error);
}

}  // namespace

bool master_listens(const std::string& path) {
  const auto fd = connect_to(path);
  if (fd) ::close(*fd);
  return fd.has_value();
}

Result<std::string> ask_master(const std::string& path, ControlRequest request) {
  const auto connected = connect_to(path);
  if (!connected) return std::unexpected(connected.error());
  const int fd = *connected;
  std::string answer;
  std::string line(to_string(request));
  line.push_back('\n');
  bool right =
      ::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  while (right) {
    char buffer[4096];
    const ssize_t got = ::recv(fd, buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  if (answer.empty()) return fail(Code::kClosed, "the master ended before it answered");
  return answer;
}

}  // namespace corehttpd::server
