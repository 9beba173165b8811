// Getters of the built-in variables, by what they look at, and what they share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "corehttpd/expr/variable.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::expr {

// A number in decimal, of at least that many digits (20 at most), in the exchange's arena. By hand:
// every log line has two.
std::string_view decimal(http::Exchange& exchange, std::uint64_t value, unsigned digits = 1);

// "0.042": milliseconds as nginx prints times.
std::string_view seconds_text(http::Exchange& exchange, Milliseconds milliseconds);

// Nothing for "": what a field that is not there means.
inline Value unless_empty(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return text;
}

namespace get {

// A string as a template's argument.
template <std::size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) { std::copy_n(from, N, text); }
};
Value tls_value(http::Exchange& exchange, std::string_view name);
// $ssl_…: nothing in clear.
template <Name kName>
Value tls(http::Exchange& exchange, std::string_view) {
  return tls_value(exchange, kName.text);
}

Value args(http::Exchange& exchange, std::string_view);
Value argument(http::Exchange& exchange, std::string_view name);
Value content_length(http::Exchange& exchange, std::string_view);
Value content_type(http::Exchange& exchange, std::string_view);
Value cookie(http::Exchange& exchange, std::string_view name);
Value host(http::Exchange& exchange, std::string_view);
Value http_field(http::Exchange& exchange, std::string_view name);
// A field that is known by number: most log lines have two of them.
template <http::FieldName kName>
Value request_field(http::Exchange& exchange, std::string_view) {
  const http::FieldList& fields = exchange.request().fields;
  if (fields.find(kName) == nullptr) return std::nullopt;
  return fields.joined(exchange.arena(), kName, ", ");
}
Value is_args(http::Exchange& exchange, std::string_view);
Value remote_user(http::Exchange& exchange, std::string_view);
Value request(http::Exchange& exchange, std::string_view);
Value request_body(http::Exchange& exchange, std::string_view);
Value request_body_file(http::Exchange& exchange, std::string_view);
Value request_id(http::Exchange& exchange, std::string_view);
Value request_length(http::Exchange& exchange, std::string_view);
Value request_method(http::Exchange& exchange, std::string_view);
Value request_uri(http::Exchange& exchange, std::string_view);
Value server_name(http::Exchange& exchange, std::string_view);
Value server_protocol(http::Exchange& exchange, std::string_view);
Value uri(http::Exchange& exchange, std::string_view);
void set_args(http::Exchange& exchange, std::string_view value);

Value binary_remote_addr(http::Exchange& exchange, std::string_view);
Value connection(http::Exchange& exchange, std::string_view);
Value connection_requests(http::Exchange& exchange, std::string_view);
Value connection_time(http::Exchange& exchange, std::string_view);
Value hostname(http::Exchange& exchange, std::string_view);
Value http2(http::Exchange& exchange, std::string_view);
Value https(http::Exchange& exchange, std::string_view);
Value msec(http::Exchange& exchange, std::string_view);
Value nginx_version(http::Exchange& exchange, std::string_view);
Value pid(http::Exchange& exchange, std::string_view);
Value pipe(http::Exchange& exchange, std::string_view);
Value proxy_protocol_addr(http::Exchange& exchange, std::string_view);
Value proxy_protocol_port(http::Exchange& exchange, std::string_view);
Value proxy_protocol_server_addr(http::Exchange& exchange, std::string_view);
Value proxy_protocol_server_port(http::Exchange& exchange, std::string_view);
Value proxy_protocol_tlv(http::Exchange& exchange, std::string_view name);
Value remote_addr(http::Exchange& exchange, std::string_view);
Value remote_port(http::Exchange& exchange, std::string_view);
Value scheme(http::Exchange& exchange, std::string_view);
Value server_addr(http::Exchange& exchange, std::string_view);
Value server_port(http::Exchange& exchange, std::string_view);
Value time_iso8601(http::Exchange& exchange, std::string_view);
Value time_local(http::Exchange& exchange, std::string_view);

Value body_bytes_sent(http::Exchange& exchange, std::string_view);
Value bytes_sent(http::Exchange& exchange, std::string_view);
Value limit_rate(http::Exchange& exchange, std::string_view);
Value request_completion(http::Exchange& exchange, std::string_view);
Value request_time(http::Exchange& exchange, std::string_view);
Value sent_field(http::Exchange& exchange, std::string_view name);
Value sent_trailer(http::Exchange& exchange, std::string_view name);
Value status(http::Exchange& exchange, std::string_view);
void set_limit_rate(http::Exchange& exchange, std::string_view value);

}  // namespace get

// All values of fields whose name is name with '_' for '-', case ignored, joined by separator.
Value field_by_variable_name(Arena& arena, const http::FieldList& fields, std::string_view name,
                             std::string_view separator);

}  // namespace corehttpd::expr
