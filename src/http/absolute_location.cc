#include "corehttpd/http/absolute_location.h"

#include <charconv>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::http {
namespace {

std::string_view local_host(Exchange& exchange) {
  const IpAddress& local = exchange.connection().local;
  char text[IpAddress::kTextMax];
  const std::string_view plain = local.format(text);
  return local.family == IpAddress::Family::kV6 ? exchange.arena().concat("[", plain, "]")
                                                : exchange.arena().copy(plain);
}

std::string_view redirect_host(Exchange& exchange, const CoreSettings& settings) {
  if (settings.server_name_in_redirect && !exchange.site().name.empty())
    return exchange.site().name;
  if (!exchange.host().empty()) return exchange.host();
  return local_host(exchange);
}

}  // namespace

std::string_view absolute_location(Exchange& exchange) {
  const std::string_view location = exchange.response().location;
  const CoreSettings& settings = exchange.settings<CoreSettings>();
  if (!location.starts_with('/') || !settings.absolute_redirect) return location;
  const bool secure = exchange.connection().tls != nullptr;
  const std::string_view scheme = secure ? "https://" : "http://";
  const std::string_view host = redirect_host(exchange, settings);
  const std::uint16_t port = settings.port_in_redirect ? exchange.connection().local.port : 0;
  // A unix socket has no port.
  if (port == 0 || port == (secure ? 443 : 80))
    return exchange.arena().concat(scheme, host, location);
  char digits[8];
  const char* end = std::to_chars(digits, digits + sizeof(digits), port).ptr;
  return exchange.arena().concat(scheme, host, ":",
                                 std::string_view(digits, static_cast<std::size_t>(end - digits)),
                                 location);
}

}  // namespace corehttpd::http
