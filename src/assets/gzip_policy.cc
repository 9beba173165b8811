// Which clients get compressed responses.
#include <algorithm>

#include "corehttpd/assets/gzip_settings.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/text.h"
#include "corehttpd/expr/regex.h"

namespace corehttpd::assets {
namespace {

using http::Exchange;
using http::FieldName;

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

}  // namespace

bool may_be_compressed_for(Exchange& exchange) {
  const auto& settings = exchange.settings<GzipSettings>();
  const http::RequestHead& request = exchange.request();
  const auto version_min = settings.http10 ? http::Version::k10 : http::Version::k11;
  if (request.version < version_min) return false;
  if (is_disabled_for(settings, request.fields.value(FieldName::kUserAgent))) return false;
  return request.fields.find(FieldName::kVia) == nullptr ||
         allowed_through_proxy(settings, exchange);
}

}  // namespace corehttpd::assets
