// Where the request came from and came to, the machine and its clocks.
#include <unistd.h>

#include "corehttpd/http/tls_info.h"
#include "expr/variables.h"

namespace corehttpd::expr {
namespace {

bool over_tls(http::Exchange& exchange) { return exchange.connection().tls != nullptr; }

}  // namespace

namespace get {

Value binary_remote_addr(http::Exchange& exchange, std::string_view) {
  const std::span<const std::uint8_t> bytes = exchange.client().binary();
  // A copy, since real_ip may change the address later while the view is still in use.
  return exchange.arena().copy({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Value connection(http::Exchange& exchange, std::string_view) {
  return decimal(exchange, exchange.connection().number);
}

Value connection_requests(http::Exchange& exchange, std::string_view) {
  return decimal(exchange, exchange.connection().requests);
}

Value connection_time(http::Exchange& exchange, std::string_view) {
  return seconds_text(exchange,
                      exchange.services().clock.now_ms() - exchange.connection().accepted_ms);
}

Value hostname(http::Exchange&, std::string_view) {
  // Read once: nginx fixes it at start as well.
  static const auto name = [] {
    struct {
      char text[256] = {};
    } made;
    if (::gethostname(made.text, sizeof(made.text) - 1) != 0) made.text[0] = '\0';
    return made;
  }();
  return unless_empty(name.text);
}

Value http2(http::Exchange& exchange, std::string_view) {
  if (exchange.main().request().version != http::Version::k2) return std::string_view("");
  return over_tls(exchange) ? std::string_view("h2") : std::string_view("h2c");
}

Value https(http::Exchange& exchange, std::string_view) {
  return over_tls(exchange) ? std::string_view("on") : std::string_view("");
}

Value msec(http::Exchange& exchange, std::string_view) {
  return seconds_text(exchange, exchange.services().clock.wall_us() / 1000);
}

Value nginx_version(http::Exchange&, std::string_view) { return kNginxVersion; }

Value pid(http::Exchange& exchange, std::string_view) {
  return decimal(exchange, static_cast<std::uint64_t>(::getpid()));
}

Value pipe(http::Exchange&, std::string_view) { return std::string_view("."); }

Value remote_addr(http::Exchange& exchange, std::string_view) { return exchange.client_text(); }

Value remote_port(http::Exchange& exchange, std::string_view) {
  const std::uint16_t port = exchange.client().port;
  if (port == 0) return std::string_view("");
  return decimal(exchange, port);
}

Value scheme(http::Exchange& exchange, std::string_view) {
  return over_tls(exchange) ? std::string_view("https") : std::string_view("http");
}

Value server_addr(http::Exchange& exchange, std::string_view) {
  const http::ConnectionInfo& connection = exchange.connection();
  if (connection.local.family == IpAddress::Family::kNone ||
      connection.local.family == IpAddress::Family::kUnix) {
    return connection.endpoint == nullptr ? Value() : unless_empty(connection.endpoint->text);
  }
  char text[IpAddress::kTextMax];
  return exchange.arena().copy(connection.local.format(text));
}

Value server_port(http::Exchange& exchange, std::string_view) {
  const std::uint16_t port = exchange.connection().local.port;
  if (port == 0) return std::string_view("");
  return decimal(exchange, port);
}

Value time_iso8601(http::Exchange& exchange, std::string_view) {
  return exchange.arena().copy(exchange.services().clock.iso_date());
}

Value time_local(http::Exchange& exchange, std::string_view) {
  return exchange.arena().copy(exchange.services().clock.log_date());
}

Value tls_value(http::Exchange& exchange, std::string_view name) {
  const http::TlsInfo* tls = exchange.connection().tls;
  if (tls == nullptr) return std::nullopt;
  return tls->value(name, exchange.arena());
}

}  // namespace get
}  // namespace corehttpd::expr
