#include "upstream/response_policy.h"

#include <string>

#include "corehttpd/base/text.h"
#include "corehttpd/http/conditional.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/response_rate.h"
#include "corehttpd/http/target.h"

namespace corehttpd::upstream {
namespace {

using http::FieldName;

constexpr std::string_view kHiddenByDefault[] = {
    "X-Accel-Buffering",  "X-Accel-Charset",  "X-Accel-Expires",
    "X-Accel-Limit-Rate", "X-Accel-Redirect", "Status",
};

bool contains(std::span<const std::string_view> list, std::string_view name) {
  for (std::string_view one : list) {
    if (text::equals_ignore_case(one, name)) return true;
  }
  return false;
}

// A ".." as a segment, whichever way it is written: an application that puts a name of its user's
// behind an internal location's means none (nginx refuses it as well).
bool climbs(std::string_view path) {
  std::string plain = "/";
  while (!path.empty()) {
    const bool dot = text::starts_with_ignore_case(path, "%2e");
    const bool slash = text::starts_with_ignore_case(path, "%2f");
    plain += dot ? '.' : slash ? '/' : path.front();
    path.remove_prefix(dot || slash ? 3 : 1);
  }
  return (plain + '/').find("/../") != std::string::npos;
}

bool is_hidden(const GatewaySettings& settings, std::string_view name) {
  if (!contains(kHiddenByDefault, name) && !contains(settings.hide_headers, name)) return false;
  return !contains(settings.pass_headers, name);
}

// Fields about the connection between us and the origin mean nothing to the client, and are
// malformed in HTTP/2 and 3.
bool is_hop_by_hop(const http::Field& field, std::string_view connection) {
  switch (field.id) {
    case FieldName::kConnection:
    case FieldName::kKeepAlive:
    case FieldName::kProxyConnection:
    case FieldName::kTe:
    case FieldName::kTrailer:
    case FieldName::kTransferEncoding:
    case FieldName::kUpgrade:
      return true;
    default:
      return !connection.empty() && text::list_contains(connection, field.name);
  }
}

// An entity-tag (RFC 9110 §8.8.3); others are passed on as they are and never compared.
bool is_etag(std::string_view value) {
  if (value.starts_with("W/")) value.remove_prefix(2);
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return false;
  return value.substr(1, value.size() - 2).find('"') == std::string_view::npos;
}

// Fields that have a place of their own in the response. False: it is an ordinary one.
bool take_special(http::ResponseHead& response, const http::Field& field) {
  switch (field.id) {
    case FieldName::kContentLength:
      return true;  // Taken from the parsed value.
    case FieldName::kContentType:
      if (response.content_type.empty()) response.content_type = field.value;
      return true;
    case FieldName::kLastModified:
      if (response.last_modified >= 0) return false;
      response.last_modified = parse_http_date(field.value);
      return response.last_modified >= 0;
    case FieldName::kEtag:
      if (!response.etag.empty() || !is_etag(field.value)) return false;
      response.etag = field.value;
      return true;
    default:
      return false;
  }
}

}  // namespace

AccelOrders read_orders(const GatewaySettings& settings, const OriginHead& head) {
  AccelOrders orders;
  for (const http::Field& field : head.fields) {
    if (settings.x_sendfile && text::equals_ignore_case(field.name, "X-Sendfile")) {
      orders.file = field.value;
    }
    if (field.id != FieldName::kOther || !text::starts_with_ignore_case(field.name, "x-accel-")) {
      continue;
    }
    const std::string_view name = field.name.substr(8);
    const auto is = [&](std::string_view order, std::uint32_t ignored) {
      return text::equals_ignore_case(name, order) && (settings.ignore_headers & ignored) == 0;
    };
    if (is("Redirect", kIgnoreAccelRedirect)) {
      orders.redirect = field.value;
    } else if (is("Charset", kIgnoreAccelCharset)) {
      orders.charset = field.value;
    } else if (is("Buffering", kIgnoreAccelBuffering)) {
      if (text::equals_ignore_case(field.value, "yes")) orders.buffering = true;
      if (text::equals_ignore_case(field.value, "no")) orders.buffering = false;
    } else if (is("Limit-Rate", kIgnoreAccelLimitRate)) {
      if (const auto rate = text::parse_decimal(field.value)) orders.limit_rate = *rate;
    }
  }
  return orders;
}

void apply_head(http::Exchange& exchange, const GatewaySettings& settings, const OriginHead& head,
                const AccelOrders& orders) {
  http::ResponseHead& response = exchange.response();
  Arena& arena = exchange.arena();
  exchange.state<http::ConditionJudge>().origin = true;
  response.status = head.status;
  response.reason = head.reason;
  response.content_length = head.content_length;
  // What an earlier attempt at an answer left behind describes another body.
  response.content_type = {};
  response.last_modified = -1;
  response.etag = {};
  response.location = {};
  const std::string_view connection = head.fields.joined(arena, FieldName::kConnection, ", ");
  for (const http::Field& field : head.fields) {
    if (is_hop_by_hop(field, connection) || is_hidden(settings, field.name)) continue;
    if (settings.x_sendfile && text::equals_ignore_case(field.name, "X-Sendfile")) continue;
    // With force_ranges it is we who serve them, and say so.
    if (settings.force_ranges && text::equals_ignore_case(field.name, "Accept-Ranges")) continue;
    // Location stays an ordinary field: what an origin says is passed on as it is, never made
    // absolute.
    if (!take_special(response, field)) {
      response.fields.add(arena, field.id, field.name, field.value);
    }
  }
  response.accept_ranges = settings.force_ranges;
  if (!orders.charset.empty()) response.charset = orders.charset;
  if (orders.limit_rate) exchange.state<http::ResponseRate>().bytes_per_second = orders.limit_rate;
}

void keep_for_redirect(http::Exchange& exchange, const OriginHead& head) {
  http::ResponseHead& response = exchange.response();
  for (const http::Field& field : head.fields) {
    const bool kept = field.id == FieldName::kSetCookie || field.id == FieldName::kCacheControl ||
                      field.id == FieldName::kExpires ||
                      text::equals_ignore_case(field.name, "Content-Disposition");
    if (kept) response.fields.add(exchange.arena(), field.id, field.name, field.value);
    if (field.id == FieldName::kContentType) response.content_type = field.value;
  }
}

bool redirect_to(http::Exchange& exchange, std::string_view target) {
  if (target.starts_with('@')) {
    exchange.redirect_named(target);
    return true;
  }
  // Applications send names as they are, blanks and all: escaped first, so that one normalization
  // serves for both kinds.
  Arena& arena = exchange.arena();
  const http::PathAndArgs parts = http::split_args(target);
  if (climbs(parts.path)) return false;
  const auto path = http::normalize_path(arena, http::escape_location(arena, parts.path),
                                         exchange.settings<http::CoreSettings>().merge_slashes);
  if (!path) return false;
  exchange.redirect(*path, parts.args);
  return true;
}

}  // namespace corehttpd::upstream
