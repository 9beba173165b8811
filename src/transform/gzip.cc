// When a response is compressed, and what that does to its head. gzip_source.cc compresses.
#include "corehttpd/transform/gzip.h"

#include <algorithm>

#include "corehttpd/base/text.h"
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

bool client_wants_it(Exchange& exchange) {
  return accepts_gzip(exchange.request().fields.joined(exchange.arena(), FieldName::kAcceptEncoding,
                                                       ", ")) &&
         assets::may_be_compressed_for(exchange);
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
    if (!client_wants_it(exchange)) return body;
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
  if (client_wants_it(exchange)) weaken_etag(exchange);
}

const http::Transform& gzip() { return kGzip; }

}  // namespace corehttpd::transform
