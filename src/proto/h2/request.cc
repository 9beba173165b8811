#include "proto/h2/request.h"

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/http/target.h"

namespace corehttpd::h2 {
namespace {

constexpr std::uint64_t kFieldOverheadBytes = 32;  // RFC 9113 §6.5.2.
// nginx's internal status; the page of it says 400 and why.
constexpr std::uint16_t kFieldTooLarge = 494;
constexpr std::uint32_t kPseudoFields = 4;

}  // namespace

std::uint32_t RequestBuilder::list_bytes_max(const http::CoreSettings& settings) {
  const std::uint64_t number = settings.large_header_buffers_number;
  // The setting is a multiplication of two configured numbers: kept from overflowing 64 bits as
  // well as the frame's 32.
  const std::uint64_t size =
      std::min<std::uint64_t>(settings.large_header_buffers_size, UINT32_MAX);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number * size, UINT32_MAX));
}

void RequestBuilder::add(std::string_view name, std::string_view value) {
  list_bytes_ += name.size() + value.size() + kFieldOverheadBytes;
  ++field_count_;
  // One field may be as long as on HTTP/1.1; ":path" has a status of its own.
  large_field_ =
      large_field_ || (value.size() > settings_.large_header_buffers_size && name != ":path");
  // A list that is too large is counted on but no longer stored: the block must be decoded to its
  // end for the compression state's sake.
  if (list_bytes_ > list_bytes_max(settings_)) return;
  if (!name.empty() && name[0] == ':') return add_pseudo(name, value);
  if (!keeps_name(name)) return;
  const http::FieldName id = http::parse_field_name(name);
  const std::string_view kept = arena_.copy(value);
  switch (id) {
    case http::FieldName::kHost:
      return add_host(name, kept);
    case http::FieldName::kCookie:
      // Browsers send crumbs to compress better; everything behind us expects one field (RFC 9113
      // §8.2.3).
      cookies_.push_back(arena_, kept);
      return;
    case http::FieldName::kContentLength:
      head_.content_length = text::parse_decimal(kept);
      bad_ = bad_ || !head_.content_length;
      break;
    case http::FieldName::kExpect:
      head_.expects_continue = text::equals_ignore_case(kept, "100-continue");
      head_.unknown_expectation = !head_.expects_continue && !kept.empty();
      break;
    default:
      has_priority_ = has_priority_ || name == "priority";
      break;
  }
  head_.fields.add(arena_, id, arena_.copy(name), kept);
}

void RequestBuilder::add_pseudo(std::string_view name, std::string_view value) {
  if (name == ":method") {
    head_.method = http::parse_method(value);
    head_.method_text =
        head_.method == http::Method::kUnknown ? arena_.copy(value) : http::to_string(head_.method);
  } else if (name == ":path") {
    path_ = arena_.copy(value);
  } else if (name == ":authority") {
    has_authority_ = true;
    head_.authority = arena_.copy(value);
    // $http_host and CGI's HTTP_HOST are the same whatever protocol was spoken.
    head_.fields.add(arena_, http::FieldName::kHost, "host", head_.authority);
  }
  // :scheme says what the client believes; how the connection really came in is known better here.
}

void RequestBuilder::add_host(std::string_view name, std::string_view value) {
  if (has_authority_) {
    // A second opinion on whose site this is: accepted only when it is the same (RFC 9113 §8.3.1).
    bad_ = bad_ || !text::equals_ignore_case(value, head_.authority);
    return;
  }
  has_authority_ = true;
  head_.authority = value;
  head_.fields.add(arena_, http::FieldName::kHost, arena_.copy(name), value);
}

// nginx's ignore_invalid_headers and underscores_in_headers: "X_Forwarded_For" and
// "X-Forwarded-For" must not become one CGI variable.
bool RequestBuilder::keeps_name(std::string_view name) const {
  if (!settings_.ignore_invalid_headers) return true;
  return std::all_of(name.begin(), name.end(), [this](char c) {
    return (c >= 'a' && c <= 'z') || text::is_digit(c) || c == '-' ||
           (c == '_' && settings_.underscores_in_headers);
  });
}

void RequestBuilder::join_cookies() {
  if (cookies_.empty()) return;
  std::string_view value = cookies_[0];
  if (cookies_.size() > 1) {
    ArenaVector<std::string_view> parts;
    parts.reserve(arena_, cookies_.size() * 2);
    for (const std::string_view crumb : cookies_) {
      if (!parts.empty()) parts.push_back(arena_, "; ");
      parts.push_back(arena_, crumb);
    }
    value = arena_.concat_views(parts);
  }
  head_.fields.add(arena_, http::FieldName::kCookie, "cookie", value);
}

void RequestBuilder::compose_request_line() {
  head_.request_line = arena_.concat(head_.method_text, " ", path_, " HTTP/2.0");
}

std::uint16_t RequestBuilder::parse_path() {
  head_.target = path_;
  const auto target = http::parse_target(arena_, path_);
  if (!target) return 400;
  // :path has no absolute-form (RFC 9113 §8.3.1); an authority in it would be a third opinion on
  // the site.
  if (!target->authority.empty() || !target->scheme.empty()) return 400;
  head_.target = target->uri;
  head_.raw_path = target->raw_path;
  head_.query = target->query;
  head_.has_query = target->has_query;
  return 0;
}

std::uint16_t RequestBuilder::finish(bool body_follows) {
  head_.version = http::Version::k2;
  head_.scheme = tls_ ? "https" : "http";
  head_.body_expected = body_follows;
  join_cookies();
  compose_request_line();
  if (list_bytes_ > list_bytes_max(settings_)) return 431;
  if (large_field_) return kFieldTooLarge;
  if (field_count_ > settings_.max_headers + kPseudoFields) return 400;
  if (head_.method == http::Method::kConnect) return 405;  // No tunnels here.
  if (path_.size() > settings_.large_header_buffers_size) return 414;
  if (const std::uint16_t status = parse_path()) return status;
  // Without a host no site can be told from another; nginx refuses it for HTTP/1.1 and 2 alike.
  if (bad_ || head_.authority.empty()) return 400;
  return 0;
}

}  // namespace corehttpd::h2
