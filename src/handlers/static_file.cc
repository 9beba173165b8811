// Serves regular files. This is the server's hottest handler: one map, one lookup, one response.
#include "corehttpd/assets/file_access.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/target.h"
#include "handlers/serve_file.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::Method;
using http::StepOutcome;

StepOutcome method_not_allowed(Exchange& exchange) {
  exchange.response().fields.set(exchange.arena(), "Allow", "GET, HEAD");
  return StepOutcome::fail(405);
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
    auto asked = assets::ask(exchange, mapped->path, assets::Need::kContent);
    if (!asked.answer) return asked.wait;
    auto& entry = *asked.answer;
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
    return serve_file(exchange, *std::move(entry));
  }
};

constexpr StaticFile kStaticFile;

}  // namespace

http::StepFactory static_file() {
  return {http::Phase::kContent,
          [](const conf::SettingsView&, Arena&) -> const http::Step* { return &kStaticFile; }};
}

}  // namespace corehttpd::handlers
