#include "corehttpd/base/syslog.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

#include "corehttpd/base/text.h"

namespace corehttpd {
namespace {

const std::string& own_hostname() {
  static const std::string kName = [] {
    char name[256] = {};
    ::gethostname(name, sizeof(name) - 1);
    for (char& c : name) c = text::lower(c);
    return std::string(name);
  }();
  return kName;
}

// "Nov  6 08:49:37", made anew when the second changes.
const char* syslog_date() {
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  static std::time_t made = -1;
  static char text[48];
  const std::time_t now = std::time(nullptr);
  if (now != made) {
    std::tm tm{};
    localtime_r(&now, &tm);
    std::snprintf(text, sizeof(text), "%s %2d %02d:%02d:%02d", kMonths[tm.tm_mon % 12], tm.tm_mday,
                  tm.tm_hour, tm.tm_min, tm.tm_sec);
    made = now;
  }
  return text;
}

// A peer that is gone: the socket has to be made anew.
bool is_gone(int errno_value) {
  return errno_value == ECONNREFUSED || errno_value == ENOTCONN || errno_value == ECONNRESET ||
         errno_value == EPIPE || errno_value == EDESTADDRREQ;
}

}  // namespace

Syslog::~Syslog() {
  // A child that shares the number by fork has closed nothing of ours, nor we of it.
  if (fd_ >= 0) ::close(fd_);
}

void Syslog::set_address(const sockaddr* address, socklen_t length) {
  std::memcpy(&address_, address, length);
  address_length_ = length;
}

void Syslog::write(LogLevel level, std::string_view line) {
  const int severity = static_cast<int>(level) - static_cast<int>(LogLevel::kEmerg);
  send(static_cast<std::uint8_t>(severity < 0 ? 0 : severity), line);
}

void Syslog::send(std::uint8_t severity, std::string_view text) {
  if (sending_ || address_length_ == 0) return;
  sending_ = true;
  const Milliseconds now = Clock().now_ms();
  if (owner_ != ::getpid()) close_socket();
  char head[512];
  const int length = std::snprintf(
      head, sizeof(head), "<%d>%s %s%s%.*s: ", parameters_.facility * 8 + severity, syslog_date(),
      parameters_.hostname ? own_hostname().c_str() : "", parameters_.hostname ? " " : "",
      static_cast<int>(parameters_.tag.size()), parameters_.tag.data());
  const std::string_view header(head, static_cast<std::size_t>(length));
  if (fd_ >= 0 || open_socket(now)) {
    int error = transmit(header, text);
    if (is_gone(error)) {
      // Over UDP that tells of an earlier message, which is lost; a unix socket's path may have a
      // new owner already. This message gets its chance either way.
      if (!parameters_.is_unix) dropped(error, "send()", now);
      close_socket();
      retry_ms_ = 0;
      if (open_socket(now)) {
        error = transmit(header, text);
        if (error != 0) dropped(error, "send()", now);
      }
    } else if (error != 0) {
      dropped(error, "send()", now);
    }
    if (error == 0) passed(now);
  }
  sending_ = false;
}

// False: dropped.
bool Syslog::open_socket(Milliseconds now) {
  if (now < retry_ms_) {
    ++dropped_;
    return false;
  }
  owner_ = ::getpid();
  fd_ = ::socket(address_.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ >= 0 &&
      ::connect(fd_, reinterpret_cast<const sockaddr*>(&address_), address_length_) == 0)
    return true;
  const int error = errno;
  dropped(error, fd_ < 0 ? "socket()" : "connect()", now);
  close_socket();
  retry_ms_ = now + kRetry;
  return false;
}

void Syslog::close_socket() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

// 0 or an errno.
int Syslog::transmit(std::string_view head, std::string_view text) {
  iovec parts[2] = {{const_cast<char*>(head.data()), head.size()},
                    {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void Syslog::dropped(int errno_value, const char* call, Milliseconds now) {
  ++dropped_;
  dropped_ms_ = now;
  if (failing_) return;
  failing_ = true;
  log_errno(nullptr, LogLevel::kError, errno_value,
            "{} to syslog server \"{}\" failed, messages are dropped", call, parameters_.server);
}

void Syslog::passed(Milliseconds now) {
  if (!failing_ || now - dropped_ms_ < kQuiet) return;
  failing_ = false;
  log(nullptr, LogLevel::kWarn, "syslog server \"{}\" works again, {} messages were dropped",
      parameters_.server, dropped_);
  dropped_ = 0;
}

}  // namespace corehttpd
