#include "handlers/serve_file.h"

#include "corehttpd/assets/file_source.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/http/core_settings.h"

namespace corehttpd::handlers {

using http::Exchange;
using http::StepOutcome;

namespace {

// Two numbers of sixteen digits, a dash before the second and one before a suffix, quotes.
constexpr std::size_t kEtagBytesMax = 36;

char* append_hex(char* to, std::uint64_t value) {
  char digits[16];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value != 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

// nginx's form, so that caches filled before a migration stay valid: "mtime-size" in hex. That of a
// variant has its suffix besides: variants may be equally old and, by chance, equally long.
std::string_view make_etag(Arena& arena, std::int64_t modified_s, std::uint64_t size,
                           std::string_view suffix) {
  auto* const begin = static_cast<char*>(arena.allocate(kEtagBytesMax + suffix.size(), 1));
  char* to = begin;
  *to++ = '"';
  to = append_hex(to, static_cast<std::uint64_t>(modified_s));
  *to++ = '-';
  to = append_hex(to, size);
  if (!suffix.empty()) {
    *to++ = '-';
    to += suffix.copy(to, suffix.size());
  }
  *to++ = '"';
  return {begin, static_cast<std::size_t>(to - begin)};
}

}  // namespace

StepOutcome lookup_failed(Exchange& exchange, std::string_view path, const Error& error) {
  std::uint16_t status = 500;
  LogLevel level = LogLevel::kCrit;
  if (error.code == Code::kNotFound || error.code == Code::kForbidden) {
    status = error.code == Code::kNotFound ? 404 : 403;
    level = LogLevel::kError;
  } else if (error.code == Code::kUnavailable || error.code == Code::kTimeout) {
    status = 503;
  }
  if (status != 404 || exchange.settings<http::CoreSettings>().log_not_found) {
    exchange.log(level, error.detail, "open() \"{}\" failed", path);
  }
  return StepOutcome::fail(status);
}

StepOutcome serve_file(Exchange& exchange, assets::FileEntry entry, const Variant& variant) {
  http::ResponseHead& head = exchange.response();
  head.status = 200;
  head.content_length = entry.size;
  // What an origin said of a file that it had sent in its place (X-Accel-Redirect) counts more.
  if (head.content_type.empty()) {
    head.content_type = assets::content_type(exchange, exchange.uri());
  }
  // An error's page is not a version of what was asked for.
  const std::uint16_t error = exchange.error_status();
  if (error == 0 || error == 200) head.last_modified = entry.modified_s;
  if (exchange.settings<http::CoreSettings>().etag) {
    head.etag = make_etag(exchange.arena(), entry.modified_s, entry.size, variant.suffix);
  }
  head.accept_ranges = true;
  if (!variant.coding.empty()) {
    head.fields.set(exchange.arena(), "Content-Encoding", variant.coding);
  }
  // HEAD passes its source on as well: transforms must come to the same head as for GET.
  http::BodySource* body = nullptr;
  if (entry.size != 0) {
    body = exchange.arena().make<assets::FileSource>(exchange, std::move(entry));
  }
  exchange.respond(body);
  return StepOutcome::answered();
}

}  // namespace corehttpd::handlers
