// Pipelines: the steps that each location's settings ask for, in the order of nginx's phases.
#include <algorithm>
#include <map>

#include "route/builder.h"

namespace corehttpd::route {
namespace {

class PipelineBuilder {
 public:
  PipelineBuilder(Arena& arena, std::span<const http::StepFactory> factories)
      : arena_(arena), factories_(factories.begin(), factories.end()) {
    std::stable_sort(
        factories_.begin(), factories_.end(),
        [](const http::StepFactory& a, const http::StepFactory& b) { return a.phase < b.phase; });
  }

  // Steps of the phases first to last.
  http::Pipeline make(const conf::SettingsView& settings, http::Phase first, http::Phase last) {
    std::vector<const http::Step*> steps;
    for (const http::StepFactory& factory : factories_) {
      if (factory.phase < first || factory.phase > last) continue;
      if (const http::Step* step = factory.make(settings, arena_)) steps.push_back(step);
    }
    // Most locations of a host do the same: they share one list.
    const auto [place, added] = known_.try_emplace(steps);
    if (added) place->second.steps = to_arena(arena_, steps);
    return place->second;
  }

 private:
  Arena& arena_;
  std::vector<http::StepFactory> factories_;
  std::map<std::vector<const http::Step*>, http::Pipeline> known_;
};

}  // namespace

void build_pipelines(conf::Compiler& compiler, Builder& builder) {
  using http::Phase;
  PipelineBuilder pipelines(compiler.arena(), builder.factories);
  for (ServerBuild* server : builder.servers) {
    SiteData& site = *server->site;
    site.rewrite = pipelines.make(site.settings, Phase::kPostRead, Phase::kServerRewrite);
    // The server's rewrite directives have run already when no location is found.
    site.fallback.pipeline = pipelines.make(site.settings, Phase::kPreaccess, Phase::kContent);
  }
  for (LocationBuild* location : builder.locations) {
    location->node->pipeline =
        pipelines.make(location->node->settings, Phase::kRewrite, Phase::kContent);
  }
  for (const InnerBuild& inner : builder.inner) {
    inner.location->pipeline =
        pipelines.make(inner.location->settings, Phase::kPreaccess, Phase::kContent);
  }
}

}  // namespace corehttpd::route
