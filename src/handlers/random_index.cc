// The random_index directive: a directory answers with any of its files.
#include "corehttpd/assets/directory.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/exchange.h"
#include "handlers/uri_directory.h"

namespace corehttpd::handlers {
namespace {

using assets::DirectoryEntry;
using http::Exchange;
using http::Method;
using http::StepOutcome;

struct RandomIndexSettings {
  bool on = false;
};

// Only has to look unpredictable to visitors.
std::uint64_t random_number(Exchange& exchange) {
  static std::uint64_t state = static_cast<std::uint64_t>(exchange.services().clock.wall_us());
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

class RandomIndex final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const Method method = exchange.request().method;
    if (!exchange.uri().ends_with('/') ||
        (method != Method::kGet && method != Method::kHead && method != Method::kPost)) {
      return StepOutcome::decline();
    }
    const UriDirectory directory = list_uri_directory(exchange);
    if (directory.listing == nullptr) return directory.outcome;
    return choose(exchange, *directory.listing);
  }

 private:
  static StepOutcome choose(Exchange& exchange, const assets::DirectoryListing& listing) {
    // Directories come first; among the rest may be what is neither.
    std::size_t files = 0;
    for (std::size_t i = 0; i < listing.size(); ++i) {
      if (listing[i].kind == DirectoryEntry::Kind::kFile) ++files;
    }
    if (files == 0) return StepOutcome::decline();
    std::size_t left = random_number(exchange) % files;
    for (std::size_t i = 0; i < listing.size(); ++i) {
      if (listing[i].kind != DirectoryEntry::Kind::kFile || left-- != 0) continue;
      exchange.redirect(exchange.arena().concat(exchange.uri(), listing[i].name), exchange.args());
      return StepOutcome::redirect();
    }
    return StepOutcome::decline();
  }
};

constexpr RandomIndex kRandomIndex;

constexpr conf::Directive kDirectives[] = {
    {.name = "random_index",
     .contexts = conf::Context::kLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&RandomIndexSettings::on>,
     .default_value = "off",
     .doc = "A URI that ends in a slash answers with any file of the directory, chosen anew for "
            "each request; names that begin with a dot are left out. Comes before index."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<RandomIndexSettings>("random_index", kDirectives);

}  // namespace

const conf::Module& random_index_module() { return kModule; }

http::StepFactory random_index() {
  return {http::Phase::kContent, [](const conf::SettingsView& view, Arena&) -> const http::Step* {
            return view.get<RandomIndexSettings>().on ? &kRandomIndex : nullptr;
          }};
}

}  // namespace corehttpd::handlers
