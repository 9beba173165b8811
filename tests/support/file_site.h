// A site with files, for unit tests of what finds, serves and decorates them. Configuration text is
// compiled with the real tables; blocks and choice of location are the simplest that will do.
//
//   FileSite site("location / { root $DIR; }", {&assets::module(), …}, factories, transforms);
//   TestRequest request(site.services(), "GET", "/a.txt");
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/io/sim_loop.h"
#include "support/compile.h"
#include "support/exchange.h"
#include "support/temp_dir.h"

namespace corehttpd::test {

// http, server and location blocks without any meaning but their settings.
struct BlockSettings {};
struct OpenedLocations {
  std::vector<std::pair<std::string_view, conf::Scope*>> locations;
  conf::Scope* server = nullptr;
};
inline bool open_block(const conf::Setting& s) {
  auto& opened = s.compiler.object_or_make<OpenedLocations>();
  if (s.name() == "server") opened.server = s.child;
  if (s.name() == "location") {
    opened.locations.emplace_back(s.word(s.words().size() - 1), s.child);
  }
  return true;
}
inline const conf::Module& block_module() {
  using conf::Context;
  static constexpr conf::Directive kRows[] = {
      {.name = "http",
       .contexts = Context::kMain,
       .kind = conf::Kind::kBlock,
       .arity = conf::exactly(0),
       .set = open_block,
       .inherit = conf::Inherit::kNone,
       .doc = "Block.",
       .opens = Context::kHttp},
      {.name = "location",
       .contexts = Context::kServer | Context::kLocation,
       .kind = conf::Kind::kBlock,
       .arity = conf::between(1, 2),
       .set = open_block,
       .inherit = conf::Inherit::kNone,
       .doc = "Block.",
       .opens = Context::kLocation},
      {.name = "server",
       .contexts = Context::kHttp,
       .kind = conf::Kind::kBlock,
       .arity = conf::exactly(0),
       .set = open_block,
       .inherit = conf::Inherit::kNone,
       .doc = "Block.",
       .opens = Context::kServer},
  };
  static constexpr conf::Module kModule = conf::module<BlockSettings>("test", kRows);
  return kModule;
}

// Longest prefix wins; "@" names are for named redirects. Regex locations match by being the only
// other ones: their name is looked for anywhere in the URI.
class PrefixSites final : public http::SiteSelector {
 public:
  http::Site site;
  std::vector<std::unique_ptr<http::Location>> locations;
  const http::Site& default_site(const http::Endpoint&) const override { return site; }
  const http::Site& select_site(const http::Endpoint&, std::string_view,
                                http::Exchange&) const override {
    return site;
  }
  http::LocationMatch find_location(http::Exchange& exchange) const override {
    const http::Location* found = nullptr;
    for (const auto& location : locations) {
      if (location->named || !exchange.uri().starts_with(location->name)) continue;
      if (found == nullptr || found->name.size() < location->name.size()) found = location.get();
    }
    if (found == nullptr) found = locations.back().get();
    exchange.set_location(found, found->settings);
    return http::LocationMatch::kFound;
  }
  bool find_named_location(http::Exchange& exchange, std::string_view name) const override {
    for (const auto& location : locations) {
      if (!location->named || location->name != name) continue;
      exchange.set_location(location.get(), location->settings);
      return true;
    }
    return false;
  }
};

class FileSite {
 public:
  // text: of a server block; "$DIR" in it stands for the temporary directory.
  FileSite(std::string text, std::vector<const conf::Module*> modules,
           std::vector<http::StepFactory> factories,
           std::vector<const http::Transform*> transforms = {})
      : transforms_(std::move(transforms)), loop_(quiet_options()) {
    for (std::size_t at; (at = text.find("$DIR")) != std::string::npos;) {
      text.replace(at, 4, directory.path());
    }
    modules.insert(modules.begin(), {&http::core_module(), &expr::expr_module(), &block_module()});
    if (std::find(modules.begin(), modules.end(), &assets::module()) == modules.end()) {
      modules.push_back(&assets::module());
    }
    compiled = compile("http { server { error_log /dev/null emerg; " + text + " } }", modules,
                       [](conf::Compiler& compiler) {
                         static const std::span<const expr::Variable> tables[] = {
                             expr::core_variables(), assets::variables()};
                         expr::prepare(compiler, tables);
                       });
    EXPECT_TRUE(compiled) << compiled.text();
    if (!compiled) return;
    build_locations(factories);
    services_.emplace(loop_, sites_, transforms_);
    files.emplace(services_->clock);
    services_->services.files = &*files;
    services_->idle = [this] {
      if (loop_.outstanding() == 0) return false;
      loop_.run_once();
      return true;
    };
    // Names of this file system that are in the kernel's caches, as those of fresh files are, need
    // no thread.
    struct stat status;
    if (::stat(directory.path().c_str(), &status) == 0) {
      files->mark_near(directory.path(), status.st_dev);
    }
  }
  TestServices& services() { return *services_; }
  io::SimLoop& loop() { return loop_; }
  // Moves both clocks, so that files written a moment ago count as settled.
  void advance(Milliseconds by_ms) {
    Clock& clock = services_->clock;
    clock.set(clock.now_ms() + by_ms, clock.wall_us() + by_ms * 1000);
  }

  TempDir directory;
  Compiled compiled;
  std::optional<assets::FileLookup> files;

 private:
  static io::SimOptions quiet_options() {
    io::SimOptions options;
    options.short_transfers = false;
    options.delays = false;
    return options;
  }
  void build_locations(const std::vector<http::StepFactory>& factories) {
    auto* opened = compiled.configuration->object<OpenedLocations>();
    sites_.site.settings = opened->server->view();
    sites_.site.name = "test";
    opened->locations.emplace_back("/", opened->server);
    std::stable_sort(opened->locations.begin(), opened->locations.end() - 1,
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [name, scope] : opened->locations) {
      auto location = std::make_unique<http::Location>();
      location->name = name;
      location->named = name.starts_with('@');
      location->settings = scope->view();
      auto& steps = steps_.emplace_back(std::make_unique<std::vector<const http::Step*>>());
      for (const http::StepFactory& factory : factories) {
        const http::Step* step = factory.make(location->settings, compiled.configuration->arena());
        if (step != nullptr) steps->push_back(step);
      }
      location->pipeline.steps = *steps;
      sites_.locations.push_back(std::move(location));
    }
  }

  std::vector<const http::Transform*> transforms_;
  io::SimLoop loop_;
  PrefixSites sites_;
  std::vector<std::unique_ptr<std::vector<const http::Step*>>> steps_;
  std::optional<TestServices> services_;
};

}  // namespace corehttpd::test
