// gzip_static, brotli_static, zstd_static: files that were compressed once, by whoever put them
// there.
#include <algorithm>
#include <array>

#include "corehttpd/assets/file_access.h"
#include "corehttpd/assets/gzip_settings.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/negotiation.h"
#include "handlers/serve_file.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::StepOutcome;
using Use = PrecompressedSettings::Use;

// In the order in which they are preferred where the client doesn't care: as a rule the smaller
// file first.
constexpr std::size_t kVariants = 3;

struct Candidate {
  Variant variant;
  std::string_view extension;
  Use use = Use::kOff;
  int weight = 0;
  bool usable = false;
};

Use effective(Use own, Use gzip) {
  if (own != Use::kUnset) return own;
  return gzip == Use::kAlways ? Use::kOn : gzip;
}

// Sorted by what the client would like best; those that it must not get last.
std::array<Candidate, kVariants> candidates_for(Exchange& exchange) {
  const auto& settings = exchange.settings<PrecompressedSettings>();
  std::array<Candidate, kVariants> all = {{
      {{"br", "br"}, ".br", effective(settings.brotli, settings.gzip)},
      {{"zstd", "zst"}, ".zst", effective(settings.zstd, settings.gzip)},
      {{"gzip", "gz"}, ".gz", settings.gzip},
  }};
  const http::AcceptedCodings accepted(
      exchange.request().fields.joined(exchange.arena(), http::FieldName::kAcceptEncoding, ", "));
  const bool allowed = assets::may_be_compressed_for(exchange);
  for (Candidate& one : all) {
    const int weight = accepted.weight(one.variant.coding);
    const bool wanted = allowed && weight > 0 && weight >= accepted.identity_weight();
    one.weight = wanted ? weight : 0;
    one.usable = wanted || one.use == Use::kAlways;
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.usable != b.usable ? a.usable : a.weight > b.weight;
  });
  return all;
}

class Precompressed final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const http::Method method = exchange.request().method;
    if (exchange.uri().ends_with('/') ||
        (method != http::Method::kGet && method != http::Method::kHead)) {
      return StepOutcome::decline();
    }
    const auto mapped = assets::map_path(exchange, exchange.uri());
    if (!mapped) return StepOutcome::fail(500);
    for (const Candidate& candidate : candidates_for(exchange)) {
      if (candidate.use == Use::kOff) continue;
      const std::string_view path = exchange.arena().concat(mapped->path, candidate.extension);
      auto asked = assets::ask(exchange, path,
                               candidate.usable ? assets::Need::kContent : assets::Need::kKind);
      if (!asked.answer) return asked.wait;
      if (!is_file(exchange, path, *asked.answer)) continue;
      // There are variants, whoever asks: caches in between must know, whichever goes out.
      if (candidate.use == Use::kOn) exchange.response().vary_accept_encoding = true;
      if (!candidate.usable) return StepOutcome::decline();
      return serve_file(exchange, **std::move(asked.answer), candidate.variant);
    }
    return StepOutcome::decline();
  }

 private:
  static bool is_file(Exchange& exchange, std::string_view path,
                      const Result<assets::FileEntry>& entry) {
    if (entry) return entry->kind == assets::FileEntry::Kind::kRegular;
    if (entry.error().code != Code::kNotFound) {
      exchange.log(LogLevel::kError, entry.error().detail, "open() \"{}\" failed", path);
    }
    return false;
  }
};

constexpr Precompressed kPrecompressed;

constexpr conf::Choice<Use> kUses[] = {
    {"off", Use::kOff}, {"on", Use::kOn}, {"always", Use::kAlways}};

constexpr conf::Directive kDirectives[] = {
    {.name = "brotli_static",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off | always",
     .set = conf::set_choice<&PrecompressedSettings::brotli, kUses>,
     .doc = "As gzip_static for \".br\" alone; unless given it is on where gzip_static is."},
    {.name = "gzip_static",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off | always",
     .set = conf::set_choice<&PrecompressedSettings::gzip, kUses>,
     .default_value = "off",
     .doc =
         "Serves the \".br\", \".zst\" or \".gz\" file beside the one asked for to clients that "
         "accept its coding: the one with the largest weight in Accept-Encoding, in this order "
         "where weights are equal. always: \".gz\" to all clients. Each variant has its own "
         "ETag; where one exists all responses carry Vary, and nothing else but the client's "
         "weights decides, unless gzip_disable, gzip_http_version or gzip_proxied bar the client "
         "from compressed responses."},
    {.name = "zstd_static",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off | always",
     .set = conf::set_choice<&PrecompressedSettings::zstd, kUses>,
     .doc = "As gzip_static for \".zst\" alone; unless given it is on where gzip_static is."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<PrecompressedSettings>("precompressed", kDirectives);

}  // namespace

const conf::Module& precompressed_module() { return kModule; }

http::StepFactory precompressed() {
  return {http::Phase::kContent, [](const conf::SettingsView& view, Arena&) -> const http::Step* {
            const auto& settings = view.get<PrecompressedSettings>();
            const bool any = settings.gzip != Use::kOff ||
                             effective(settings.brotli, settings.gzip) != Use::kOff ||
                             effective(settings.zstd, settings.gzip) != Use::kOff;
            return any ? &kPrecompressed : nullptr;
          }};
}

}  // namespace corehttpd::handlers
