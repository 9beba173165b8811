// What fastcgi_, scgi_ and uwsgi_ share beside the gateway's own settings: the server to pass to,
// the parameters that a request is described by, and the step that passes it.
#pragma once

#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/location_reset.h"
#include "corehttpd/http/pipeline.h"
#include "corehttpd/upstream/gateway.h"
#include "corehttpd/upstream/settings.h"
#include "handlers/gateway/pass_target.h"
#include "handlers/gateway/x_sendfile.h"

namespace corehttpd::handlers {

struct CgiParam {
  std::string_view name;
  expr::Program value;
  bool if_not_empty = false;
};

// One block's ..._param directives.
struct CgiParams {
  ArenaVector<CgiParam> all;
  // Those named HTTP_…: the request's own field of that name is then left out.
  ArenaVector<std::string_view> http_names;
};

// Setters for the settings S of a protocol, which has members pass and params.

// A nested location has to name its own server.
template <class S>
void reset_pass(conf::Compiler& compiler, conf::Scope& location) {
  if (location.view().get<S>().pass == nullptr) return;
  compiler.settings<S>(location).pass = nullptr;
}

template <class S>
bool set_pass(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  settings.pass = make_target(s);
  http::LocationResets::add(s.compiler, reset_pass<S>);
  // "/dir" asked for where only "/dir/" passes on: redirected to the name with the slash.
  s.compiler.settings<http::CoreSettings>(s.scope).auto_redirect = true;
  return settings.pass != nullptr;
}

template <class S>
bool set_param(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  const bool if_not_empty = s.words().size() == 3;
  if (if_not_empty && s.word(2) != "if_not_empty") {
    return s.fail(2, "invalid parameter \"{}\"", s.word(2));
  }
  if (s.first_here) settings.params = s.arena().make<CgiParams>();
  // Made by this block's first directive, so it is nobody else's.
  auto& params = const_cast<CgiParams&>(*settings.params);
  CgiParam param{s.arena().copy(s.word(0)), {}, if_not_empty};
  if (!expr::read_program(s, 1, param.value)) return false;
  params.all.push_back(s.arena(), param);
  if (param.name.starts_with("HTTP_")) params.http_names.push_back(s.arena(), param.name);
  return true;
}

// Settings with more to say of how a request is passed have it in complete().
template <class S, const auto& Protocol>
class CgiStep final : public http::Step {
 public:
  http::StepOutcome run(http::Exchange& exchange) const override {
    const S& settings = exchange.settings<S>();
    if (settings.pass == nullptr) return http::StepOutcome::decline();
    if (auto* order = exchange.find_state<upstream::FileOrder>();
        order != nullptr && !order->path.empty()) {
      return send_named_file(exchange, *order, settings.gateway.x_sendfile_folders);
    }
    upstream::GatewayPass pass{.protocol = &Protocol, .settings = &settings.gateway};
    if (const std::uint16_t status = find_origin(*settings.pass, exchange, pass); status != 0) {
      return http::StepOutcome::fail(status);
    }
    settings.complete(pass);
    return upstream::pass_to_origin(exchange, pass);
  }
};

template <class S, const auto& Protocol>
http::StepFactory cgi_step() {
  static constexpr CgiStep<S, Protocol> kStep;
  return {http::Phase::kContent,
          [](const conf::SettingsView& settings, Arena&) -> const http::Step* {
            return settings.get<S>().pass == nullptr ? nullptr : &kStep;
          }};
}

}  // namespace corehttpd::handlers
