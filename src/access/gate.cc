#include "access/gate.h"

#include <optional>

#include "corehttpd/access/access.h"
#include "corehttpd/access/auth_basic.h"
#include "corehttpd/access/auth_request.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::access {
namespace {

using http::Exchange;
using http::StepOutcome;

constexpr Guard kGuards[] = {check_address, check_password, ask_location};

// Of one run of the phase: an internal redirect begins anew.
struct GateState {
  std::size_t next = 0;      // The guard to be asked next.
  std::uint16_t status = 0;  // satisfy any: what the refusal would be; 401 before 403.
  bool challenged = false;
};

// Holds a 401 back for auth_delay, so that guessing takes its time and says nothing by it.
class Delay final : public io::Timer, public http::AbortHook {
 public:
  explicit Delay(Exchange& exchange)
      : io::Timer([](io::Timer& timer) {
          Exchange& exchange = static_cast<Delay&>(timer).exchange_;
          exchange.set_ends_with_client(false);
          exchange.resume(StepOutcome::fail(401));
        }),
        http::AbortHook([](http::AbortHook& hook, const Error&) {
          auto& self = static_cast<Delay&>(hook);
          self.exchange_.services().loop.cancel(static_cast<io::Timer&>(self));
        }),
        exchange_(exchange) {}

 private:
  Exchange& exchange_;
};

StepOutcome refuse(Exchange& exchange, std::uint16_t status) {
  const Milliseconds delay = exchange.settings<AccessSettings>().auth_delay;
  if (status != 401 || delay == 0) return StepOutcome::fail(status);
  exchange.log(LogLevel::kInfo, 0, "delaying unauthorized request");
  auto* waiting = exchange.arena().make<Delay>(exchange);
  exchange.on_abort(*waiting);
  exchange.set_ends_with_client(true);
  exchange.services().loop.schedule(*waiting, delay);
  return StepOutcome::suspend();
}

void withdraw_challenges(Exchange& exchange, const GateState& state) {
  if (state.challenged) exchange.response().fields.remove(http::FieldName::kWwwAuthenticate);
}

// What a verdict means for the request; nothing: the next guard is to be asked.
std::optional<StepOutcome> weigh(Exchange& exchange, GateState& state, Verdict verdict) {
  if (verdict.kind == Verdict::Kind::kNone) return std::nullopt;
  const bool any = exchange.settings<AccessSettings>().satisfy == AccessSettings::Satisfy::kAny;
  if (verdict.kind == Verdict::Kind::kGranted) {
    if (!any) return std::nullopt;
    withdraw_challenges(exchange, state);
    return StepOutcome::proceed();
  }
  if (!any || (verdict.status != 401 && verdict.status != 403))
    return refuse(exchange, verdict.status);
  if (state.status != 401) state.status = verdict.status;
  return std::nullopt;
}

StepOutcome ask_guards(Exchange& exchange, GateState& state) {
  while (state.next < std::size(kGuards)) {
    const Verdict verdict = kGuards[state.next++](exchange);
    if (verdict.kind == Verdict::Kind::kPending) return StepOutcome::suspend();
    if (const auto outcome = weigh(exchange, state, verdict)) return *outcome;
  }
  if (state.status == 0) return StepOutcome::proceed();
  if (state.status == 403) exchange.log(LogLevel::kError, 0, "access forbidden by rule");
  return refuse(exchange, state.status);
}

class AccessStep final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    if (exchange.is_subrequest()) return StepOutcome::proceed();
    auto& state = exchange.state<GateState>();
    state = {};
    return ask_guards(exchange, state);
  }
};

constexpr AccessStep kStep;

}  // namespace

Verdict check_address(Exchange& exchange) {
  const auto& settings = exchange.settings<AccessSettings>();
  switch (settings.rules.decide(exchange.client())) {
    case AddressRules::Decision::kNone:
      return Verdict::none();
    case AddressRules::Decision::kAllow:
      return Verdict::granted();
    case AddressRules::Decision::kDeny:
      break;
  }
  if (settings.satisfy == AccessSettings::Satisfy::kAll)
    exchange.log(LogLevel::kError, 0, "access forbidden by rule");
  return Verdict::refused(403);
}

void conclude(Exchange& exchange, Verdict verdict) {
  auto& state = exchange.state<GateState>();
  auto outcome = weigh(exchange, state, verdict);
  if (!outcome) outcome = ask_guards(exchange, state);
  // A further guard, or the delay, keeps the exchange waiting.
  if (outcome->kind != StepOutcome::Kind::kSuspend) exchange.resume(*outcome);
}

void challenge(Exchange& exchange, std::string_view value) {
  auto& state = exchange.state<GateState>();
  http::FieldList& fields = exchange.response().fields;
  // Those of an earlier run, before an internal redirect, are not this location's.
  if (!std::exchange(state.challenged, true)) fields.remove(http::FieldName::kWwwAuthenticate);
  fields.add(exchange.arena(), http::FieldName::kWwwAuthenticate, "WWW-Authenticate", value);
}

const http::Step* make_access_step(const conf::SettingsView& settings, Arena&) {
  const bool guarded = !settings.get<AccessSettings>().rules.empty() ||
                       settings.get<AuthBasicSettings>().is_on() ||
                       !settings.get<AuthRequestSettings>().uri.empty();
  return guarded ? &kStep : nullptr;
}

}  // namespace corehttpd::access
