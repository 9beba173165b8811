#include "proto/h2/request.h"

#include <algorithm>
#include <array>

#include "corehttpd/base/text.h"
#include "corehttpd/http/target.h"
#include "proto/h1/byte_scan.h"

namespace corehttpd::h2 {
namespace {

constexpr std::uint64_t kFieldOverheadBytes = 32;  // RFC 9113 §6.5.2.
// nginx's internal status; the page of it says 400 and why.
constexpr std::uint16_t kFieldTooLarge = 494;
constexpr std::uint32_t kPseudoFields = 4;
// Lists up to this are measured without the overhead, see too_large().
constexpr std::uint64_t kOverheadFree = 4096;

// What the bytes of a field name make of it, or'ed together.
constexpr std::uint8_t kUnderscore = 1;  // Dropped unless underscores_in_headers.
constexpr std::uint8_t kOdd = 2;         // nginx calls it invalid and drops the field.
constexpr std::uint8_t kForbidden = 4;   // Makes the request malformed.
constexpr std::array<std::uint8_t, 256> kNameBytes = [] {
  std::array<std::uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) table[c] = c <= 0x20 || c >= 0x7f || c == ':' ? kForbidden : kOdd;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = kForbidden;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = 0;
  for (int c = '0'; c <= '9'; ++c) table[c] = 0;
  table['-'] = 0;
  table['_'] = kUnderscore;
  return table;
}();

constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

// RFC 9113 §8.2.1 forbids blanks around a value; they are cut, as nginx does and as HTTP/1.1 has
// it.
constexpr std::string_view without_blanks(std::string_view value) {
  while (!value.empty() && is_blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
  return value;
}

// What RFC 9113 §8.2.1 allows, and nginx: other control characters, too.
bool is_value(std::string_view value) {
  const char* const end = value.data() + value.size();
  return h1::find_field_stop(value.data(), end) == end || http::is_field_value(value);
}

// RFC 3986 §3.1.
bool is_scheme(std::string_view text) {
  const auto letter = [](char c) { return text::lower(c) >= 'a' && text::lower(c) <= 'z'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || text::is_digit(c) || c == '+' || c == '-' || c == '.';
  });
}

}  // namespace

std::uint32_t RequestBuilder::list_bytes_max(const http::CoreSettings& settings) {
  const std::uint64_t number = settings.large_header_buffers_number;
  // The setting is a multiplication of two configured numbers: kept from overflowing 64 bits as
  // well as the frame's 32.
  const std::uint64_t size =
      std::min<std::uint64_t>(settings.large_header_buffers_size, UINT32_MAX);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number * size, UINT32_MAX));
}

// The overhead of §6.5.2 is there so that many small fields count for what they cost. A short list
// is not refused for it: who configures buffers of 512 bytes means names and values, as nginx does.
bool RequestBuilder::too_large() const {
  const std::uint64_t limit = list_bytes_max(settings_);
  return list_bytes_ > std::max(limit, kOverheadFree) ||
         list_bytes_ - field_count_ * kFieldOverheadBytes > limit;
}

void RequestBuilder::add(std::string_view name, std::string_view value) {
  list_bytes_ += name.size() + value.size() + kFieldOverheadBytes;
  ++field_count_;
  // One field may be as long as on HTTP/1.1; ":path" has a status of its own.
  large_field_ =
      large_field_ || (std::max(name.size(), value.size()) > settings_.large_header_buffers_size &&
                       name != ":path");
  // A list that is too large is counted on but no longer stored: the block must be decoded to its
  // end for the compression state's sake.
  if (too_large()) return;
  if (!is_value(value)) return spoil("an invalid value of a header");
  if (!name.empty() && name[0] == ':') return add_pseudo(name, value);
  has_regular_ = true;
  if (keeps_name(name)) add_regular(name, without_blanks(value));
}

void RequestBuilder::add_trailer(std::string_view name, std::string_view value) {
  list_bytes_ += name.size() + value.size() + kFieldOverheadBytes;
  if (name.starts_with(':')) return spoil("a pseudo-header in its trailers");
  if (!is_value(value)) return spoil("an invalid value of a header");
  keeps_name(name);
}

void RequestBuilder::add_regular(std::string_view name, std::string_view value) {
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
      if (head_.content_length) return spoil("duplicate header \"Content-Length\"");
      head_.content_length = text::parse_decimal(kept);
      if (!head_.content_length) return spoil("invalid \"Content-Length\" header");
      break;
    case http::FieldName::kExpect:
      head_.expects_continue = text::equals_ignore_case(kept, "100-continue");
      head_.unknown_expectation = !head_.expects_continue && !kept.empty();
      break;
    // Of the connection, which is not HTTP/1.1's (RFC 9113 §8.2.2): what means nothing here could
    // mean something behind us.
    case http::FieldName::kConnection:
    case http::FieldName::kKeepAlive:
    case http::FieldName::kProxyConnection:
    case http::FieldName::kTransferEncoding:
    case http::FieldName::kUpgrade:
      return spoil("a connection-specific header");
    case http::FieldName::kTe:
      if (!text::equals_ignore_case(kept, "trailers")) return spoil("invalid \"TE\" header");
      break;
    default:
      if (name == "priority") {
        has_priority_ = true;
        priority_ = parse_priority(kept);
      }
      break;
  }
  head_.fields.add(arena_, id, arena_.copy(name), kept);
}

void RequestBuilder::add_pseudo(std::string_view name, std::string_view value) {
  const std::uint8_t which = name == ":method"      ? kMethod
                             : name == ":scheme"    ? kScheme
                             : name == ":path"      ? kPath
                             : name == ":authority" ? kAuthority
                                                    : 0;
  if (which == 0) return spoil("an unknown pseudo-header");
  if (has_regular_) return spoil("a pseudo-header after other headers");
  if ((pseudo_ & which) != 0) return spoil("a duplicate pseudo-header");
  pseudo_ |= which;
  switch (which) {
    case kMethod:
      if (value.empty()) spoil("an empty :method header");
      head_.method = http::parse_method(value);
      head_.method_text = head_.method == http::Method::kUnknown ? arena_.copy(value)
                                                                 : http::to_string(head_.method);
      break;
    case kPath:
      if (value.empty()) spoil("an empty :path header");
      path_ = arena_.copy(value);
      break;
    case kAuthority:
      has_authority_ = true;
      head_.authority = arena_.copy(value);
      // $http_host and CGI's HTTP_HOST are the same whatever protocol was spoken.
      head_.fields.add(arena_, http::FieldName::kHost, "host", head_.authority);
      break;
    default:
      // :scheme says what the client believes; how the connection really came in is known better
      // here.
      if (!is_scheme(value)) spoil("an invalid :scheme header");
      break;
  }
}

void RequestBuilder::add_host(std::string_view name, std::string_view value) {
  if (has_host_) return spoil("duplicate header \"Host\"");
  has_host_ = true;
  if (has_authority_) {
    // A second opinion on whose site this is: accepted only when it is the same (RFC 9113 §8.3.1).
    bad_ = bad_ || !text::equals_ignore_case(value, head_.authority);
    return;
  }
  has_authority_ = true;
  head_.authority = value;
  head_.fields.add(arena_, http::FieldName::kHost, arena_.copy(name), value);
}

// Whether a field may be seen by what is behind us: nginx's ignore_invalid_headers and
// underscores_in_headers, as "X_Forwarded_For" and "X-Forwarded-For" must not become one CGI
// variable. Capitals, blanks and the like make the whole request malformed (RFC 9113 §8.2.1).
bool RequestBuilder::keeps_name(std::string_view name) {
  std::uint8_t seen = name.empty() ? kForbidden : 0;
  for (const char c : name) seen |= kNameBytes[static_cast<unsigned char>(c)];
  if ((seen & kForbidden) != 0) {
    spoil("an invalid header name");
    return false;
  }
  if (seen == 0 || !settings_.ignore_invalid_headers) return true;
  return seen == kUnderscore && settings_.underscores_in_headers;
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
  return judge(body_follows);
}

std::uint16_t RequestBuilder::judge(bool body_follows) {
  constexpr std::uint8_t kNeeded = kMethod | kScheme | kPath;
  if (too_large()) return 431;
  if (large_field_) return kFieldTooLarge;
  if (field_count_ > settings_.max_headers + kPseudoFields) return 400;
  // CONNECT has neither (RFC 9113 §8.5), everything else both.
  const bool connect = head_.method == http::Method::kConnect;
  if ((pseudo_ & kNeeded) != (connect ? std::uint8_t{kMethod} : kNeeded))
    spoil("a request without its pseudo-headers, or with too many");
  if (head_.content_length.value_or(0) != 0 && !body_follows)
    spoil("a \"Content-Length\" header and no body");
  if (flaw_ != nullptr) return 400;
  if (connect) return 405;  // No tunnels here.
  if (path_.size() > settings_.large_header_buffers_size) return 414;
  if (const std::uint16_t status = parse_path()) return status;
  // Without a host no site can be told from another; nginx refuses it for HTTP/1.1 and 2 alike.
  if (bad_ || head_.authority.empty()) return 400;
  return 0;
}

}  // namespace corehttpd::h2
