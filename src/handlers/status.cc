#include "corehttpd/handlers/status.h"

#include <fmt/format.h>

#include "corehttpd/conf/values.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/location_reset.h"
#include "corehttpd/http/memory_source.h"

namespace corehttpd::handlers {
namespace {

using conf::Context;
using http::Exchange;
using http::StepOutcome;

struct StatusSettings {
  bool enabled = false;
};

// A nested location answers in its own way.
void reset_status(conf::Compiler& compiler, conf::Scope& location) {
  if (!location.view().get<StatusSettings>().enabled) return;
  compiler.settings<StatusSettings>(location).enabled = false;
}

bool set_status(const conf::Setting& s) {
  http::LocationResets::add(s.compiler, reset_status);
  static_cast<StatusSettings*>(s.settings)->enabled = true;
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "stub_status",
     .contexts = Context::kServer | Context::kLocation,
     .arity = conf::between(0, 1),
     .syntax = "",
     .set = set_status,
     .doc = "Answers with the server's counters of connections and requests."},
};
static_assert(conf::well_formed(kDirectives));

class StatusStep final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    if (exchange.request().method != http::Method::kGet &&
        exchange.request().method != http::Method::kHead) {
      return StepOutcome::fail(405);
    }
    const http::Counters::Snapshot c = exchange.services().counters.snapshot();
    char text[256];
    const auto end = fmt::format_to_n(
        text, sizeof(text),
        "Active connections: {} \nserver accepts handled requests\n {} {} {} \n"
        "Reading: {} Writing: {} Waiting: {} \n",
        c.active, c.accepts, c.handled, c.requests, c.reading, c.writing, c.waiting);
    auto& response = exchange.response();
    response.status = 200;
    response.content_type = "text/plain";
    response.content_length = end.size;
    exchange.respond(http::make_text_source(exchange.arena(), {text, end.size}));
    return StepOutcome::answered();
  }
};
constinit const StatusStep kStatusStep;

template <std::uint64_t http::Counters::Snapshot::*Field>
expr::Value count(Exchange& exchange, std::string_view) {
  char text[24];
  const auto end =
      fmt::format_to_n(text, sizeof(text), "{}", exchange.services().counters.snapshot().*Field);
  return exchange.arena().copy({text, end.size});
}

using Snapshot = http::Counters::Snapshot;
constexpr expr::Variable kVariables[] = {
    {.name = "connections_active", .get = count<&Snapshot::active>, .doc = "Connections open."},
    {.name = "connections_reading",
     .get = count<&Snapshot::reading>,
     .doc = "Connections whose request is being read."},
    {.name = "connections_waiting",
     .get = count<&Snapshot::waiting>,
     .doc = "Idle keep-alive connections."},
    {.name = "connections_writing",
     .get = count<&Snapshot::writing>,
     .doc = "Connections that are being answered."},
};

}  // namespace

const conf::Module& status_module() {
  static constexpr conf::Module kModule = conf::module<StatusSettings>("status", kDirectives);
  return kModule;
}

const http::Step* make_status_step(const conf::SettingsView& settings, Arena&) {
  return settings.get<StatusSettings>().enabled ? &kStatusStep : nullptr;
}

std::span<const expr::Variable> status_variables() { return kVariables; }

}  // namespace corehttpd::handlers
