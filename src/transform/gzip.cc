// When a response is compressed, and what that does to its head. gzip_source.cc compresses.
#include "corehttpd/transform/gzip.h"

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/negotiation.h"
#include "transform/gzip_source.h"
#include "transform/gzip_variant.h"

namespace corehttpd::transform {
namespace {

using http::Exchange;
using http::FieldName;

// The type without parameters; case and blanks around it mean nothing (RFC 9110 §8.3.1).
bool type_matches(const GzipSettings& settings, std::string_view content_type) {
  if (settings.all_types) return true;
  const std::string_view type = text::trim(content_type.substr(0, content_type.find(';')));
  return std::any_of(settings.types.begin(), settings.types.end(), [type](std::string_view wanted) {
    return text::equals_ignore_case(wanted, type);
  });
}

// The response itself is worth it, whoever asked: the same for every client, so that Vary is told
// to all of them. 206 is not among the statuses: a part of a body is never compressed.
bool is_compressible(const GzipSettings& settings, const http::ResponseHead& head) {
  if (!settings.on) return false;
  if (head.status != 200 && head.status != 403 && head.status != 404) return false;
  if (head.content_length && *head.content_length < settings.min_length) return false;
  if (head.fields.find(FieldName::kContentEncoding) != nullptr) return false;
  if (head.fields.find(FieldName::kContentRange) != nullptr) return false;
  // A transformation that the origin has forbidden (RFC 9111 §5.2.2.6).
  if (text::list_contains(head.fields.value(FieldName::kCacheControl), "no-transform"))
    return false;
  return !head.content_type.empty() && type_matches(settings, head.content_type);
}

bool is_msie6(std::string_view agent) {
  const std::size_t at = agent.find("MSIE ");
  if (at == std::string_view::npos || at + 6 >= agent.size() || agent[at + 6] != '.') return false;
  const char major = agent[at + 5];
  if (major == '4' || major == '5') return true;
  return major == '6' && agent.find("SV1", at) == std::string_view::npos;
}

bool is_disabled_for(const GzipSettings& settings, std::string_view agent) {
  if (agent.empty()) return false;
  if (settings.disable_msie6 && is_msie6(agent)) return true;
  return std::any_of(settings.disable.begin(), settings.disable.end(),
                     [agent](const expr::Regex* regex) { return regex->test(agent); });
}

bool has_expired(Exchange& exchange, std::string_view expires) {
  const std::int64_t at = parse_http_date(expires);
  // What is no date has expired (RFC 9111 §5.3): "0" is a common way to say so.
  if (at < 0) return true;
  const http::ResponseHead& head = exchange.response();
  const std::int64_t date = parse_http_date(head.fields.value(FieldName::kDate));
  return at < (date >= 0 ? date : exchange.services().clock.wall_seconds());
}

// Each of gzip_proxied's words names a reason why a proxy will not keep the response for others.
bool allowed_through_proxy(const GzipSettings& settings, Exchange& exchange) {
  const std::uint16_t wanted = settings.proxied;
  const http::ResponseHead& head = exchange.response();
  const auto is_set = [wanted](std::uint16_t bit) { return (wanted & bit) != 0; };
  if (is_set(GzipSettings::kAny)) return true;
  if (is_set(GzipSettings::kAuth) &&
      exchange.request().fields.find(FieldName::kAuthorization) != nullptr) {
    return true;
  }
  if (is_set(GzipSettings::kExpired)) {
    const http::Field* expires = head.fields.find(FieldName::kExpires);
    if (expires != nullptr && has_expired(exchange, expires->value)) return true;
  }
  for (const http::Field& field : head.fields) {
    if (field.id != FieldName::kCacheControl) continue;
    if (is_set(GzipSettings::kNoCache) && text::list_contains(field.value, "no-cache")) return true;
    if (is_set(GzipSettings::kNoStore) && text::list_contains(field.value, "no-store")) return true;
    if (is_set(GzipSettings::kPrivate) && text::list_contains(field.value, "private")) return true;
  }
  if (is_set(GzipSettings::kNoLastModified) && head.last_modified < 0) return true;
  return is_set(GzipSettings::kNoEtag) && head.etag.empty();
}

bool client_wants_it(const GzipSettings& settings, Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const std::string_view accepted =
      request.fields.joined(exchange.arena(), FieldName::kAcceptEncoding, ", ");
  const auto version_min = settings.http10 ? http::Version::k10 : http::Version::k11;
  if (!accepts_gzip(accepted) || request.version < version_min) return false;
  if (is_disabled_for(settings, request.fields.value(FieldName::kUserAgent))) return false;
  return request.fields.find(FieldName::kVia) == nullptr ||
         allowed_through_proxy(settings, exchange);
}

// Compressed bytes are not the bytes that a strong validator promises, so it becomes a weak one.
void weaken_etag(Exchange& exchange) {
  http::ResponseHead& head = exchange.response();
  if (head.etag.starts_with('"')) head.etag = exchange.arena().concat("W/", head.etag);
  for (http::Field& field : head.fields) {
    if (field.id == FieldName::kEtag && field.value.starts_with('"')) {
      field.value = exchange.arena().concat("W/", field.value);
    }
  }
}

class Gzip final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    const auto& settings = exchange.settings<GzipSettings>();
    http::ResponseHead& head = exchange.response();
    // A part of a page is compressed with the page.
    if (exchange.is_subrequest() || !is_compressible(settings, head)) return body;
    head.vary_accept_encoding |= settings.vary;
    if (!client_wants_it(settings, exchange)) return body;
    // A HEAD tells what a GET would (RFC 9110 §9.3.2); another response without a body stays as it
    // is.
    if (body == nullptr && exchange.request().method != http::Method::kHead) return body;
    http::BodySource* source = body;
    if (body != nullptr && exchange.request().method != http::Method::kHead) {
      source = make_gzip_source(exchange, *body, settings.level);
      if (source == nullptr) return body;  // No memory for it: identity is always right.
    }
    head.content_length.reset();
    head.accept_ranges = false;
    head.fields.remove(FieldName::kAcceptRanges);
    head.fields.add(exchange.arena(), FieldName::kContentEncoding, "Content-Encoding", "gzip");
    weaken_etag(exchange);
    return source;
  }
};

constexpr Gzip kGzip;

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  const http::AcceptedCodings accepted(accept_encoding);
  const int weight = accepted.weight("gzip");
  return weight > 0 && weight >= accepted.identity_weight();
}

void describe_variant(Exchange& exchange) {
  const auto& settings = exchange.settings<GzipSettings>();
  if (exchange.is_subrequest() || !is_compressible(settings, exchange.response())) return;
  exchange.response().vary_accept_encoding |= settings.vary;
  if (client_wants_it(settings, exchange)) weaken_etag(exchange);
}

const http::Transform& gzip() { return kGzip; }

}  // namespace corehttpd::transform
