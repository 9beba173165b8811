// What is answered.
#include "corehttpd/base/text.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/response_rate.h"
#include "corehttpd/http/trailers.h"
#include "expr/variables.h"

namespace corehttpd::expr {
namespace {

// Fields that the head holds apart from its list; nothing for others.
Value special_field(http::Exchange& exchange, std::string_view name) {
  const http::ResponseHead& head = exchange.response();
  if (name == "content_type") {
    if (head.content_type.empty()) return std::nullopt;
    if (head.charset.empty()) return head.content_type;
    return exchange.arena().concat(head.content_type, "; charset=", head.charset);
  }
  if (name == "content_length") {
    if (!head.content_length) return std::nullopt;
    return decimal(exchange, *head.content_length);
  }
  if (name == "last_modified" && head.last_modified >= 0) {
    char text[29];
    format_http_date(head.last_modified, text);
    return exchange.arena().copy({text, sizeof(text)});
  }
  if (name == "etag") return unless_empty(head.etag);
  if (name == "location") return unless_empty(head.location);
  if (name == "accept_ranges" && head.accept_ranges) return std::string_view("bytes");
  return std::nullopt;
}

}  // namespace

namespace get {

Value body_bytes_sent(http::Exchange& exchange, std::string_view) {
  return decimal(exchange, exchange.body_bytes_sent());
}

Value bytes_sent(http::Exchange& exchange, std::string_view) {
  return decimal(exchange, exchange.bytes_sent());
}

Value limit_rate(http::Exchange& exchange, std::string_view) {
  const auto* rate = exchange.main().find_state<http::ResponseRate>();
  return decimal(exchange, rate == nullptr ? 0 : rate->bytes_per_second.value_or(0));
}

void set_limit_rate(http::Exchange& exchange, std::string_view value) {
  const auto bytes = conf::parse_size(value);
  if (!bytes) {
    exchange.log(LogLevel::kError, 0, "invalid $limit_rate \"{}\"", value);
    return;
  }
  exchange.main().state<http::ResponseRate>().bytes_per_second = *bytes;
}

Value request_completion(http::Exchange& exchange, std::string_view) {
  // Meant for the log, which is written when all has been sent or the client has gone.
  return exchange.main().complete() ? std::string_view("OK") : std::string_view("");
}

Value request_time(http::Exchange& exchange, std::string_view) {
  return seconds_text(exchange, exchange.services().clock.now_ms() - exchange.main().started_ms());
}

Value sent_field(http::Exchange& exchange, std::string_view name) {
  if (const Value special = special_field(exchange, name)) return special;
  return field_by_variable_name(exchange.arena(), exchange.response().fields, name, ", ");
}

Value sent_trailer(http::Exchange& exchange, std::string_view name) {
  const auto* sent = exchange.find_state<http::SentTrailers>();
  if (sent == nullptr) return std::nullopt;
  return field_by_variable_name(exchange.arena(), *sent->list, name, ", ");
}

Value status(http::Exchange& exchange, std::string_view) {
  const std::uint16_t error = exchange.error_status();
  return decimal(exchange, error != 0 ? error : exchange.response().status, 3);
}

}  // namespace get
}  // namespace corehttpd::expr
