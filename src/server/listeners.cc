#include "server/listeners.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "corehttpd/base/log.h"

namespace corehttpd::server {

namespace {

// An address that comes later (a tunnel, a cloud's second address, IPv6 whose duplicate detection
// is not over) must not keep all other sites down, nor need a start in the right order.
std::string absent_address(const route::Listener& listener) {
  return "bind() to " + listener.address.to_string() +
         ": this machine does not have that address now, it is served when it appears";
}

// A server that has just ended may hold its address for some milliseconds more; nginx tries as
// often.
Result<int> listen_patiently(const route::Listener& listener) {
  constexpr int kTries = 5;
  constexpr timespec kPause{0, 100'000'000};
  io::ListenOptions options = listener.options;
  for (int tries = 1;; ++tries) {
    auto fd = io::listen_on(listener.address, options);
    if (!fd && fd.error().detail == EADDRNOTAVAIL && !options.absent_address) {
      log(nullptr, LogLevel::kWarn, "{}", absent_address(listener));
      options.absent_address = true;
      continue;
    }
    if (fd || fd.error().detail != EADDRINUSE || tries == kTries) return fd;
    ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace

ListeningSockets::~ListeningSockets() {
  for (const Bound& bound : bound_) close(bound);
}

// The file goes with the socket: a client would find nobody behind it.
void ListeningSockets::close(const Bound& bound) {
  if (bound.address.is_unix() && bound.owned)
    ::unlink(reinterpret_cast<const sockaddr_un*>(bound.address.get())->sun_path);
  ::close(bound.fd);
}

const ListeningSockets::Bound* ListeningSockets::find(const io::Address& address) const {
  for (const Bound& bound : bound_) {
    if (bound.address == address) return &bound;
  }
  return nullptr;
}

void ListeningSockets::adopt(const std::vector<int>& fds) {
  for (int fd : fds) {
    int listening = 0;
    socklen_t length = sizeof(listening);
    auto address = io::local_address(fd);
    if (!address || ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 ||
        listening == 0) {
      ::close(fd);
      continue;
    }
    bound_.push_back({*address, fd, false});
  }
}

void ListeningSockets::own() {
  for (Bound& bound : bound_) bound.owned = true;
}

void ListeningSockets::disown() {
  for (Bound& bound : bound_) bound.owned = false;
}

std::vector<int> ListeningSockets::all() const {
  std::vector<int> fds;
  for (const Bound& bound : bound_) fds.push_back(bound.fd);
  return fds;
}

void ListeningSockets::close_others(std::span<route::Listener> wanted) const {
  for (const Bound& bound : bound_) {
    if (std::none_of(wanted.begin(), wanted.end(),
                     [&](const auto& w) { return w.address == bound.address; }))
      ::close(bound.fd);
  }
}

Result<> ListeningSockets::open(std::span<route::Listener> wanted, std::string& failed) {
  const std::size_t before = bound_.size();
  for (const route::Listener& listener : wanted) {
    if (find(listener.address) != nullptr) continue;
    auto fd = listen_patiently(listener);
    if (!fd) {
      failed = "bind() to " + listener.address.to_string();
      while (bound_.size() > before) {
        close(bound_.back());
        bound_.pop_back();
      }
      return std::unexpected(fd.error());
    }
    bound_.push_back({listener.address, *fd});
  }
  return {};
}

void ListeningSockets::keep_only(std::span<route::Listener> wanted) {
  for (const route::Listener& listener : wanted) {
    if (const Bound* bound = find(listener.address))
      io::configure_listener(bound->fd, bound->address, listener.options);
  }
  std::erase_if(bound_, [&](const Bound& bound) {
    const bool keep = std::any_of(wanted.begin(), wanted.end(),
                                  [&](const auto& w) { return w.address == bound.address; });
    if (!keep) close(bound);
    return !keep;
  });
}

std::vector<int> ListeningSockets::descriptors(std::span<route::Listener> wanted) const {
  std::vector<int> fds;
  for (const route::Listener& listener : wanted) {
    const Bound* bound = find(listener.address);
    fds.push_back(bound == nullptr ? -1 : bound->fd);
  }
  return fds;
}

void ListeningSockets::close_all() {
  for (const Bound& bound : bound_) close(bound);
  bound_.clear();
}

Result<> test_listeners(std::span<route::Listener> wanted, std::string& failed,
                        std::vector<std::string>& warnings) {
  for (const route::Listener& listener : wanted) {
    if (listener.address.is_unix()) continue;  // Binding would leave a file behind.
    const int fd = ::socket(listener.address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
      const int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
      const int only = listener.options.ipv6_only ? 1 : 0;
      if (listener.address.family() == AF_INET6)
        ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
      if (::bind(fd, listener.address.get(), listener.address.length) != 0 && errno != EADDRINUSE)
        error = errno;
      if (error == EADDRNOTAVAIL) {
        warnings.push_back(absent_address(listener));
        error = 0;
      }
      ::close(fd);
    }
    if (error != 0) {
      failed = "bind() to " + listener.address.to_string();
      return std::unexpected(error_from_errno(error, "bind()"));
    }
  }
  return {};
}

}  // namespace corehttpd::server
