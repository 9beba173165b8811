// Serves regular files. This is the server's hottest handler: one map, one lookup, one response.
#include <fmt/core.h>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/assets/file_source.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/target.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::Method;
using http::StepOutcome;

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

// nginx's form, so that caches filled before a migration stay valid: "mtime-size" in hex.
std::string_view make_etag(Arena& arena, std::int64_t modified_s, std::uint64_t size) {
  auto* const begin = static_cast<char*>(arena.allocate(36, 1));
  char* to = begin;
  *to++ = '"';
  to = append_hex(to, static_cast<std::uint64_t>(modified_s));
  *to++ = '-';
  to = append_hex(to, size);
  *to++ = '"';
  return {begin, static_cast<std::size_t>(to - begin)};
}

StepOutcome method_not_allowed(Exchange& exchange) {
  exchange.response().fields.set(exchange.arena(), "Allow", "GET, HEAD");
  return StepOutcome::fail(405);
}

StepOutcome lookup_failed(Exchange& exchange, std::string_view path, const Error& error) {
  std::uint16_t status = 500;
  LogLevel level = LogLevel::kCrit;
  if (error.code == Code::kNotFound || error.code == Code::kForbidden) {
    status = error.code == Code::kNotFound ? 404 : 403;
    level = LogLevel::kError;
  }
  if (status != 404 || exchange.settings<http::CoreSettings>().log_not_found) {
    exchange.log(level, error.detail, "open() \"{}\" failed", path);
  }
  return StepOutcome::fail(status);
}

StepOutcome add_slash(Exchange& exchange) {
  Arena& arena = exchange.arena();
  const std::string_view path = http::escape_uri(arena, exchange.uri());
  const std::string_view args = exchange.args();
  exchange.response().location =
      args.empty() ? arena.concat(path, "/") : arena.concat(path, "/?", args);
  return StepOutcome::fail(301);
}

StepOutcome refuse_listing(Exchange& exchange) {
  const auto mapped = assets::map_path(exchange, exchange.uri());
  if (mapped) {
    exchange.log(LogLevel::kError, 0, "directory index of \"{}\" is forbidden", mapped->path);
  }
  return StepOutcome::fail(403);
}

StepOutcome serve(Exchange& exchange, assets::FileEntry entry) {
  http::ResponseHead& head = exchange.response();
  head.status = 200;
  head.content_length = entry.size;
  head.content_type = assets::content_type(exchange, exchange.uri());
  head.last_modified = entry.modified_s;
  if (exchange.settings<http::CoreSettings>().etag) {
    head.etag = make_etag(exchange.arena(), entry.modified_s, entry.size);
  }
  head.accept_ranges = true;
  // HEAD passes its source on as well: transforms must come to the same head as for GET.
  http::BodySource* body = nullptr;
  if (entry.size != 0) {
    body = exchange.arena().make<assets::FileSource>(exchange, std::move(entry));
  }
  exchange.respond(body);
  return StepOutcome::answered();
}

class StaticFile final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const Method method = exchange.request().method;
    const bool reads = method == Method::kGet || method == Method::kHead;
    if (!reads && method != Method::kPost) return method_not_allowed(exchange);
    const std::string_view uri = exchange.uri();
    if (!uri.empty() && uri.back() == '/') return refuse_listing(exchange);
    const auto mapped = assets::map_path(exchange, uri);
    if (!mapped) return StepOutcome::fail(500);
    auto entry = exchange.services().files->lookup(
        mapped->path, exchange.settings<assets::Settings>().open_files);
    if (!entry) return lookup_failed(exchange, mapped->path, entry.error());
    switch (entry->kind) {
      case assets::FileEntry::Kind::kDirectory:
        return add_slash(exchange);
      case assets::FileEntry::Kind::kOther:
        exchange.log(LogLevel::kCrit, 0, "\"{}\" is not a regular file", mapped->path);
        return StepOutcome::fail(404);
      case assets::FileEntry::Kind::kRegular:
        break;
    }
    // Only now, as nginx has it: a POST to what does not exist is 404.
    if (!reads) return method_not_allowed(exchange);
    return serve(exchange, *std::move(entry));
  }
};

constexpr StaticFile kStaticFile;

}  // namespace

http::StepFactory static_file() {
  return {http::Phase::kContent,
          [](const conf::SettingsView&, Arena&) -> const http::Step* { return &kStaticFile; }};
}

}  // namespace corehttpd::handlers
