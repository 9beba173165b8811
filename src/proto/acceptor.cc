#include "proto/acceptor.h"

#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/io/socket.h"
#include "proto/connection_log.h"
#include "proto/h1/connection.h"
#include "proto/proxy_reader.h"
#include "proto/tls_handshake.h"

namespace corehttpd::proto {
namespace {

// What holds for connections that came to local: value, but at the exceptions its contrary.
bool holds(bool value, std::span<const IpAddress> exceptions, const IpAddress& local) {
  for (const IpAddress& exception : exceptions) {
    if (exception.family == local.family && exception.bytes == local.bytes) return !value;
  }
  return value;
}

}  // namespace

Acceptors::Acceptors(http::Services& services, std::size_t connections_max)
    : services_(services),
      connections_max_(connections_max),
      connections_(services.turn),
      h1_(std::make_unique<h1::Context>(services, connections_)) {}

Acceptors::~Acceptors() {
  CORE_CHECK(stopped());
  CORE_CHECK(connections_.empty());
}

void Acceptors::add(int listener, const http::Endpoint& endpoint) {
  acceptors_.push_back(std::make_unique<Acceptor>(*this, listener, endpoint));
  acceptors_.back()->start();
}

void Acceptors::stop() {
  stopping_ = true;
  for (auto& acceptor : acceptors_) acceptor->stop();
  announce_stopped();
}

bool Acceptors::stopped() const {
  return std::all_of(acceptors_.begin(), acceptors_.end(),
                     [](const auto& acceptor) { return acceptor->stopped(); });
}

void Acceptors::when_stopped(TurnTask* task) {
  when_stopped_ = task;
  announce_stopped();
}

void Acceptors::announce_stopped() {
  if (stopping_ && when_stopped_ != nullptr && stopped()) services_.turn.post(*when_stopped_);
}

Acceptor::Acceptor(Acceptors& owner, int listener, const http::Endpoint& endpoint)
    : owner_(owner),
      listener_(listener),
      endpoint_(endpoint),
      operation_(
          [](io::Operation& operation, int result) {
            static_cast<AcceptOperation&>(operation).owner.on_accepted(result);
          },
          *this),
      timer_([](io::Timer& timer) { static_cast<PauseTimer&>(timer).owner.start(); }, *this) {
  const auto& bytes = endpoint.address.bytes;
  const bool is_ip = endpoint.address.family == IpAddress::Family::kV4 ||
                     endpoint.address.family == IpAddress::Family::kV6;
  any_address_ =
      is_ip && std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
  // Accepted sockets inherit it, which saves a call for each.
  const auto& settings =
      owner.services_.sites.default_site(endpoint).settings.get<http::CoreSettings>();
  if (is_ip && settings.tcp_nodelay) io::set_no_delay(listener, true);
}

void Acceptor::start() {
  if (owner_.stopping_ || operation_.pending()) return;
  if (!has_room()) return pause(kPauseForRoom);
  owner_.services_.loop.accept(listener_, peer_, operation_);
}

void Acceptor::stop() {
  owner_.services_.loop.cancel(timer_);
  if (operation_.pending()) owner_.services_.loop.cancel(operation_);
}

// One line when the worker is full and one when it is not any more: a flood of connections must not
// become a flood of lines.
bool Acceptor::has_room() {
  const BlockPool& blocks = owner_.services_.blocks;
  const bool memory = blocks.in_use() < blocks.limit() / 100 * kBlocksPercentMax;
  const bool room = owner_.connections_.size() < owner_.connections_max_ && memory;
  if (room == !out_of_connections_) return room;
  out_of_connections_ = !room;
  if (!room) {
    log(nullptr, LogLevel::kAlert, "{} {} are not enough, accepting on {} pauses",
        owner_.connections_max_, memory ? "worker_connections" : "worker_connections' buffers",
        endpoint_.text);
  } else {
    log(nullptr, LogLevel::kNotice, "accepting on {} again", endpoint_.text);
  }
  return room;
}

void Acceptor::pause(Milliseconds time) { owner_.services_.loop.schedule(timer_, time); }

void Acceptor::on_accepted(int result) {
  if (result >= 0) {
    // Also one that the kernel gave us after stop(): nobody else would serve it.
    if (std::exchange(out_of_descriptors_, false))
      log(nullptr, LogLevel::kNotice, "accepting on {} again", endpoint_.text);
    serve(result);
  } else if (result == -ECANCELED && owner_.stopping_) {
    serve_last();
  } else {
    on_error(-result);
  }
  if (owner_.stopping_) return owner_.announce_stopped();
  if (!timer_.scheduled()) start();
}

// The kernel wakes one of those who wait on a shared listener. If that was us, just before we
// stopped waiting, nobody else knows of the connection until the next one comes.
void Acceptor::serve_last() {
  socklen_t length = sizeof peer_;
  peer_ = {};
  const int fd = accept4(listener_, reinterpret_cast<sockaddr*>(&peer_), &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) serve(fd);
}

void Acceptor::on_error(int errno_value) {
  switch (errno_value) {
    case ECANCELED:
    case EINTR:
    case EAGAIN:
    case ECONNABORTED:  // The client went away before it was accepted; and what accept(2) says of
                        // the network beneath:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:
      return;  // A firewall rule.
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      if (!std::exchange(out_of_descriptors_, true)) {
        log_errno(nullptr, LogLevel::kCrit, errno_value, "accept4() failed, accepting on {} pauses",
                  endpoint_.text);
      }
      return pause(kPause);
    default:
      log_errno(nullptr, LogLevel::kAlert, errno_value, "accept4() failed on {}", endpoint_.text);
      return pause(kPause);
  }
}

void Acceptor::serve(int fd) {
  http::Services& services = owner_.services_;
  http::ConnectionInfo info;
  info.number = ++owner_.last_number_;
  info.peer = IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&peer_));
  info.local = endpoint_.address;
  info.endpoint = &endpoint_;
  info.accepted_ms = services.clock.now_ms();
  if (any_address_) {
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0) {
      info.local = IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&local));
    }
  }
  for (const IpNetwork& clients : services.debug_clients) info.debug |= clients.contains(info.peer);
  const auto& settings = services.sites.default_site(endpoint_).settings.get<http::CoreSettings>();
  log_in(settings.error_log, LogLevel::kDebug, ConnectionLog(info), 0, "accept: port {}, fd:{}",
         info.peer.port, fd);
  services.counters.connection_accepted();
  if (holds(endpoint_.proxy_protocol, endpoint_.proxy_protocol_exceptions, info.local))
    return ProxyReader::serve(fd, info, *owner_.h1_);
  serve_connection(fd, info, *owner_.h1_);
}

void serve_connection(int fd, const http::ConnectionInfo& info, h1::Context& context) {
  if (holds(info.endpoint->tls, info.endpoint->tls_exceptions, info.local))
    return TlsHandshake::serve(fd, info, context);
  h1::Connection::serve(fd, info, context);
}

}  // namespace corehttpd::proto
