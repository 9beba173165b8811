#include "proto/proxy_reader.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "proto/acceptor.h"
#include "proto/connection_log.h"

namespace corehttpd::proto {

void ProxyReader::serve(int fd, const http::ConnectionInfo& info, h1::Context& context) {
  auto* reader = new ProxyReader(fd, info, context);
  reader->begin();
  reader->wait();
}

ProxyReader::ProxyReader(int fd, const http::ConnectionInfo& info, h1::Context& context)
    : Newcomer(fd, info, context), io::Operation([](io::Operation& operation, int result) {
        static_cast<ProxyReader&>(operation).on_ready(result);
      }) {}

void ProxyReader::wait() {
  context_.services.loop.poll(fd_, POLLIN, static_cast<io::Operation&>(*this));
}

void ProxyReader::on_ready(int result) {
  if (closing_ || result < 0) return close();
  if (look()) wait();
}

// Takes what has come of the header. False: the connection has been handed over or closed.
bool ProxyReader::look() {
  for (;;) {
    const ssize_t seen =
        ::recv(fd_, buffer_.data() + read_, buffer_.size() - read_, MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0 && errno == EINTR) continue;
    if (seen < 0 && errno == EAGAIN) return true;
    if (seen <= 0) {
      log(LogLevel::kInfo, seen < 0 ? errno : 0, "client {} connection",
          seen < 0 ? "broke off the" : "closed");
      close();
      return false;
    }
    const std::size_t known = read_ + static_cast<std::size_t>(seen);
    const auto scan = scan_proxy_header(std::span(buffer_).first(known));
    switch (scan.verdict) {
      case ProxyHeaderScan::Verdict::kIncomplete:
        if (!take(known)) return false;
        continue;
      case ProxyHeaderScan::Verdict::kComplete:
        if (take(scan.bytes)) hand_over();
        return false;
      case ProxyHeaderScan::Verdict::kBroken:
        read_ = known;
        refuse(scan.problem);
        return false;
    }
  }
}

// Bytes that have been seen are there to be read.
bool ProxyReader::take(std::size_t count) {
  while (read_ < count) {
    const ssize_t got = ::recv(fd_, buffer_.data() + read_, count - read_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      close();
      return false;
    }
    read_ += static_cast<std::size_t>(got);
  }
  return true;
}

void ProxyReader::hand_over() {
  auto proxy = parse_proxy_header(std::span(buffer_).first(read_));
  if (!proxy) return refuse(proxy.error().context);
  info_.proxy = *std::move(proxy);
  serve_connection(std::exchange(fd_, -1), info_, context_);
  leave();
}

void ProxyReader::refuse(const char* problem) {
  // A version 1 header, or a client that knows of none, has a line to show.
  const std::string_view text(reinterpret_cast<const char*>(buffer_.data()), read_);
  const std::string_view line = text.substr(0, std::min(text.find_first_of("\r\n"), kProxyLineMax));
  if (line.empty()) {
    log(LogLevel::kError, 0, "{}", problem);
  } else {
    log(LogLevel::kError, 0, "{}: \"{}\"", problem, line);
  }
  close();
}

void ProxyReader::on_timer() {
  log(LogLevel::kInfo, ETIMEDOUT, "client timed out");
  close_now();
}

void ProxyReader::close_now() {
  if (std::exchange(closing_, true)) return;
  // The poll is always pending between two turns, and its completion closes.
  context_.services.loop.cancel(static_cast<io::Operation&>(*this));
}

void ProxyReader::close() {
  closing_ = true;
  close_descriptor();
  leave();
}

// As nginx: what was being done follows the error's text.
template <class... A>
void ProxyReader::log(LogLevel level, int errno_value, fmt::format_string<A...> format,
                      A&&... arguments) {
  if (!log_enabled(settings_.error_log, level)) return;
  std::string text = fmt::format(format, std::forward<A>(arguments)...);
  if (errno_value != 0) text += fmt::format(" ({}: {})", errno_value, strerrordesc_np(errno_value));
  log_in(settings_.error_log, level, ConnectionLog(info_), 0, "{} while reading PROXY protocol",
         text);
}

}  // namespace corehttpd::proto
