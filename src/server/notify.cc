#include "server/notify.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "corehttpd/base/text.h"

namespace corehttpd::server {
namespace {

std::uint64_t number_in(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : text::parse_decimal(value).value_or(0);
}

}  // namespace

ServiceManager::ServiceManager() {
  const char* address = std::getenv("NOTIFY_SOCKET");
  if (address == nullptr || (address[0] != '/' && address[0] != '@')) return;
  if (std::strlen(address) >= sizeof(sockaddr_un::sun_path)) return;
  address_ = address;
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // A watchdog that names another process is not for us.
  const std::uint64_t owner = number_in("WATCHDOG_PID");
  if (owner == 0 || owner == static_cast<std::uint64_t>(::getpid()))
    watchdog_ms_ = static_cast<Milliseconds>(number_in("WATCHDOG_USEC") / 1000);
}

ServiceManager::~ServiceManager() { hand_over(); }

void ServiceManager::hand_over() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  watchdog_ms_ = 0;
}

void ServiceManager::send(std::string_view message) {
  if (socket_ < 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  // Blocks while the manager's queue is full: a lost READY=1 would have the service killed.
  while (::sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&to), length) < 0 &&
         errno == EINTR) {
  }
}

void ServiceManager::ready(std::string_view status, bool main_process) {
  std::string message = fmt::format("READY=1\nSTATUS={}", status);
  if (main_process) message += fmt::format("\nMAINPID={}", ::getpid());
  send(message);
}

void ServiceManager::reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1000));
}

void ServiceManager::stopping() { send("STOPPING=1"); }

void ServiceManager::keep_alive(Milliseconds now_ms) {
  if (watchdog_ms_ == 0 || now_ms - last_alive_ms_ < watchdog_ms_ / 2) return;
  last_alive_ms_ = now_ms;
  send("WATCHDOG=1");
}

}  // namespace corehttpd::server
