#include "server/exposed_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include "corehttpd/assets/settings.h"
#include "corehttpd/handlers/gateway.h"
#include "corehttpd/handlers/status.h"
#include "corehttpd/route/tree.h"

namespace corehttpd::server {
namespace {

// What leaks a site's source or its passwords, as a visitor asks for it.
constexpr std::string_view kSecret[] = {"/.git/config", "/.env"};

class Exposure {
 public:
  Exposure(conf::Configuration& configuration, std::span<const http::StepFactory> factories)
      : tree_(*configuration.object<route::Tree>()),
        arena_(configuration.arena()),
        factories_(factories) {}

  bool is_served(const http::Site& site, std::string_view uri) const {
    // Rewrites of the server may keep it from being served: only what is certain is said.
    if (!site.rewrite.steps.empty()) return false;
    const http::Location* location = tree_.locate(site, uri);
    const conf::SettingsView& settings = location != nullptr ? location->settings : site.settings;
    if (location != nullptr && location->internal) return false;
    const auto& files = settings.get<assets::Settings>();
    if (files.root_has_variables || files.is_alias || files.root_text.empty()) return false;
    if (handlers::make_status_step(settings, arena_) != nullptr) return false;
    if (handlers::fastcgi_step().make(settings, arena_) != nullptr) return false;
    for (const http::StepFactory& factory : factories_) {
      // In a location whatever runs before content may refuse.
      if (factory.phase == http::Phase::kServerRewrite || factory.phase > http::Phase::kAccess)
        continue;
      if (factory.make(settings, arena_) != nullptr) return false;
    }
    const std::string path = std::string(files.root_text) + std::string(uri);
    return ::access(path.c_str(), F_OK) == 0;
  }

 private:
  const route::Tree& tree_;
  Arena& arena_;
  std::span<const http::StepFactory> factories_;
};

}  // namespace

void warn_of_exposed_files(conf::Configuration& configuration,
                           std::span<const http::StepFactory> factories,
                           conf::Diagnostics& diagnostics) {
  const route::Tree* tree = configuration.object<route::Tree>();
  if (tree == nullptr) return;
  const Exposure exposure(configuration, factories);
  // Both lists are in the order of the file.
  for (std::size_t i = 0; i < tree->sites().size(); ++i) {
    const conf::Site& site = configuration.sites().all()[i];
    for (std::string_view uri : kSecret) {
      if (!exposure.is_served(*tree->sites()[i], uri)) continue;
      const conf::Word& at = site.scope->node->name;
      diagnostics.add(conf::Severity::kWarning, at.at,
                      fmt::format("site \"{}\" serves \"{}\" to anyone", site.name, uri),
                      "location ~ /\\.(?!well-known/) { return 404; } keeps hidden files in",
                      at.text.size());
    }
  }
  diagnostics.sort();
}

}  // namespace corehttpd::server
