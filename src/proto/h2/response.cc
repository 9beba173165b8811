#include "proto/h2/response.h"

#include <fmt/format.h>

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/http/core_settings.h"

namespace corehttpd::h2 {
namespace {

using http::FieldName;

// Bytes that the arena or the program keeps until the stream is gone: the library need not copy
// them.
constexpr std::uint8_t kNoCopy = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;

nghttp2_nv pair(std::string_view name, std::string_view value, std::uint8_t flags = kNoCopy) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), flags};
}

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

std::string_view lower_name(Arena& arena, std::string_view name) {
  if (std::none_of(name.begin(), name.end(), is_upper)) return name;
  auto to = arena.make_array<char>(name.size());
  std::transform(name.begin(), name.end(), to.begin(), text::lower);
  return {to.data(), to.size()};
}

// Three digits, in static storage for what is sent all the time.
std::string_view status_text(Arena& arena, std::uint16_t status) {
  switch (status) {
    case 200:
      return "200";
    case 206:
      return "206";
    case 301:
      return "301";
    case 302:
      return "302";
    case 304:
      return "304";
    case 404:
      return "404";
    default:
      break;
  }
  char text[8];
  const auto end = fmt::format_to_n(text, sizeof text, "{:03}", status);
  return arena.copy({text, end.size});
}

// Framing and the connection are the protocol's own business (RFC 9113 §8.2.2), whoever has a field
// for it: a PHP page may (case 19).
bool is_framing(FieldName id) {
  switch (id) {
    case FieldName::kConnection:
    case FieldName::kContentLength:  // The head's own; a second one would contradict it.
    case FieldName::kKeepAlive:
    case FieldName::kProxyConnection:
    case FieldName::kTransferEncoding:
    case FieldName::kUpgrade:
    case FieldName::kTe:
      return true;
    default:
      return false;
  }
}

// The last gate before the peer, which would treat the whole response as malformed for one bad
// field.
bool can_be_sent(const http::Field& field) {
  return !is_framing(field.id) && http::is_token(field.name) && http::is_field_value(field.value);
}

std::string_view server_text(http::CoreSettings::Tokens tokens) {
  return tokens == http::CoreSettings::Tokens::kOff ? std::string_view("corehttpd")
                                                    : "corehttpd/" CORE_VERSION;
}

// The dates that files were changed on: few and always the same, and dear to compose.
class DateCache {
 public:
  std::string_view text(std::int64_t unix_seconds) {
    Entry& entry = entries_[static_cast<std::uint64_t>(unix_seconds) % std::size(entries_)];
    if (entry.second != unix_seconds) {
      format_http_date(unix_seconds, entry.text);
      entry.second = unix_seconds;
    }
    return {entry.text, sizeof entry.text};
  }

 private:
  struct Entry {
    std::int64_t second = -1;
    char text[29];
  };
  Entry entries_[64];
};
DateCache date_cache;  // Of the worker: one process, one thread.

std::string_view date_text(Arena& arena, std::int64_t unix_seconds) {
  return arena.copy(date_cache.text(unix_seconds));
}

// "Content-Type" of the head with its charset.
std::string_view content_type(Arena& arena, const http::ResponseHead& head) {
  if (head.charset.empty()) return head.content_type;
  return arena.concat(head.content_type, "; charset=", head.charset);
}

// Fields that have a place of their own in ResponseHead.
void add_head_fields(NameValues& out, http::Exchange& exchange, const http::ResponseHead& head) {
  Arena& arena = exchange.arena();
  if (!head.content_type.empty() && http::is_field_value(head.content_type)) {
    out.push_back(arena, pair("content-type", content_type(arena, head)));
  }
  if (head.content_length && head.status != 204) {
    const fmt::format_int text(*head.content_length);
    out.push_back(arena, pair("content-length", arena.copy({text.data(), text.size()})));
  }
  if (head.last_modified >= 0)
    out.push_back(arena, pair("last-modified", date_text(arena, head.last_modified)));
  if (!head.etag.empty() && http::is_field_value(head.etag))
    out.push_back(arena, pair("etag", head.etag));
  if (head.accept_ranges && head.status == 200 &&
      head.fields.find(FieldName::kAcceptRanges) == nullptr) {
    out.push_back(arena, pair("accept-ranges", "bytes"));
  }
  if (head.vary_accept_encoding) out.push_back(arena, pair("vary", "Accept-Encoding"));
  if (!head.location.empty() && http::is_field_value(head.location)) {
    out.push_back(arena, pair("location", head.location));
  }
}

}  // namespace

NameValues encode_head(http::Exchange& exchange, const http::ResponseHead& head) {
  Arena& arena = exchange.arena();
  NameValues out;
  out.reserve(arena, head.fields.size() + 10);
  out.push_back(arena, pair(":status", status_text(arena, head.status)));
  // A backend's own Date or Server replaces ours.
  if (head.fields.find(FieldName::kServer) == nullptr) {
    out.push_back(
        arena, pair("server", server_text(exchange.settings<http::CoreSettings>().server_tokens)));
  }
  if (head.fields.find(FieldName::kDate) == nullptr) {
    // The clock's text changes under the frame if it leaves in a later second.
    out.push_back(arena, pair("date", arena.copy(exchange.services().clock.http_date())));
  }
  add_head_fields(out, exchange, head);
  for (const http::Field& field : head.fields) {
    if (can_be_sent(field)) out.push_back(arena, pair(lower_name(arena, field.name), field.value));
  }
  return out;
}

NameValues encode_informational(Arena& arena, std::uint16_t status, const http::FieldList& fields) {
  NameValues out;
  out.push_back(arena, pair(":status", status_text(arena, status)));
  for (const http::Field& field : fields) {
    if (!can_be_sent(field)) continue;
    out.push_back(arena, pair(lower_name(arena, field.name), field.value, NGHTTP2_NV_FLAG_NONE));
  }
  return out;
}

NameValues encode_trailers(Arena& arena, const http::FieldList& fields) {
  NameValues out;
  for (const http::Field& field : fields) {
    // Framing and routing fields mean something only in front (RFC 9110 §6.5.1).
    if (!can_be_sent(field) || field.id == FieldName::kTrailer || field.id == FieldName::kHost) {
      continue;
    }
    out.push_back(arena, pair(lower_name(arena, field.name), field.value));
  }
  return out;
}

}  // namespace corehttpd::h2
