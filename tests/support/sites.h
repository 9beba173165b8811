// A whole configuration for unit tests: its text is compiled with the modules of routing and
// rewriting and a probe that answers with a string, and requests run through it.
//
//   TestSites sites(R"(http { server { location / { answer "$uri"; } } })");
//   ASSERT_TRUE(sites.compiled) << sites.compiled.text();
//   EXPECT_EQ(sites.get("/a"), "200 /a");
#pragma once

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/handlers/rewrite.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/location_reset.h"
#include "corehttpd/http/memory_source.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/route/tree.h"
#include "support/compile.h"
#include "support/exchange.h"

namespace corehttpd::test {

// "answer string" is a content handler; "pass" one that wants nginx's auto redirect, as
// fastcgi_pass does. Neither goes down into nested locations.
namespace probe {

struct Settings {
  expr::Program answer;
  bool answers = false;
};

inline void reset(conf::Compiler& compiler, conf::Scope& location) {
  if (location.view().get<Settings>().answers) {
    compiler.settings<Settings>(location).answers = false;
  }
}

inline bool set_answer(const conf::Setting& s) {
  auto& settings = *static_cast<Settings*>(s.settings);
  settings.answers = true;
  http::LocationResets::add(s.compiler, reset);
  return s.words().empty() || expr::read_program(s, 0, settings.answer);
}

inline bool set_pass(const conf::Setting& s) {
  s.compiler.settings<http::CoreSettings>(s.scope).auto_redirect = true;
  return set_answer(s);
}

inline constexpr conf::Context kContexts = conf::Context::kServer | conf::Context::kLocation |
                                           conf::Context::kIfLocation | conf::Context::kLimitExcept;
inline constexpr conf::Directive kDirectives[] = {
    {.name = "answer",
     .contexts = kContexts,
     .syntax = "string",
     .set = set_answer,
     .doc = "Answers with the string."},
    {.name = "pass",
     .contexts = kContexts,
     .syntax = "string",
     .set = set_pass,
     .doc = "The same, with auto redirect."},
};
inline constexpr conf::Module kModule = conf::module<Settings>("probe", kDirectives);

class Step final : public http::Step {
 public:
  http::StepOutcome run(http::Exchange& exchange) const override {
    const std::string_view text = exchange.settings<Settings>().answer.evaluate(exchange);
    exchange.response().status = 200;
    exchange.response().content_length = text.size();
    exchange.respond(http::make_text_source(exchange.arena(), text));
    return http::StepOutcome::answered();
  }
};
inline constexpr Step kStep;

inline const http::Step* make(const conf::SettingsView& settings, Arena&) {
  return settings.get<Settings>().answers ? &kStep : nullptr;
}

}  // namespace probe

inline void prepare_sites(conf::Compiler& compiler) {
  static const std::array kTables = {expr::core_variables(), assets::variables()};
  expr::prepare(compiler, kTables);
  static std::vector<http::StepFactory> factories = [] {
    std::vector<http::StepFactory> all(handlers::rewrite_factories().begin(),
                                       handlers::rewrite_factories().end());
    all.push_back({http::Phase::kContent, probe::make});
    return all;
  }();
  route::set_step_factories(compiler, factories);
}

inline std::span<const conf::Module* const> site_modules() {
  static const std::array modules = {&http::core_module(),        &expr::expr_module(),
                                     &route::route_module(),      &assets::module(),
                                     &handlers::rewrite_module(), &probe::kModule};
  return modules;
}

struct TestSites {
  Compiled compiled;
  std::unique_ptr<io::SimLoop> loop = std::make_unique<io::SimLoop>(io::SimOptions());
  std::unique_ptr<assets::FileLookup> files;
  std::unique_ptr<TestServices> services;

  explicit TestSites(std::string_view text)
      : compiled(compile(text, site_modules(), prepare_sites)) {
    // Without http there is no tree, and nothing to serve.
    if (!compiled || compiled.configuration->object<route::Tree>() == nullptr) return;
    services = std::make_unique<TestServices>(*loop, tree());
    files = std::make_unique<assets::FileLookup>(services->clock);
    services->services.files = files.get();
    services->idle = [sim = loop.get()] {
      if (sim->outstanding() == 0) return false;
      sim->run_once();
      return true;
    };
  }
  // One server with these directives.
  static TestSites server(std::string_view directives) {
    return TestSites(fmt::format("http {{ server {{ {} }} }}", directives));
  }

  route::Tree& tree() { return *compiled.configuration->object<route::Tree>(); }
  // "status body", or "status -> location".
  std::string run(TestRequest& request) {
    request.run();
    const FakeTransport& t = request.transport;
    if (t.heads == 0) return t.reset_with ? "reset" : "nothing";
    if (!t.location.empty()) return fmt::format("{} -> {}", t.status, t.location);
    return t.body.empty() ? fmt::format("{}", t.status) : fmt::format("{} {}", t.status, t.body);
  }
  std::string get(std::string_view target, TestRequest::Fields fields = {{"Host", "h"}}) {
    TestRequest request(*services, "GET", target, fields);
    return run(request);
  }
  std::string host(std::string_view name) { return get("/", {{"Host", name}}); }
};

}  // namespace corehttpd::test
