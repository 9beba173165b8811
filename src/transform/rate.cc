// limit_rate and limit_rate_after: worked out once the response is known, for the transport.
#include <optional>

#include "corehttpd/conf/values.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/response_rate.h"
#include "corehttpd/transform/transforms.h"

namespace corehttpd::transform {
namespace {

using http::Exchange;

// nginx takes what is no size for none, silently; so the log says why a limit does not hold.
std::uint64_t size_of(const expr::Program& program, Exchange& exchange, std::string_view name) {
  const std::string_view text = program.evaluate(exchange);
  if (text.empty()) return 0;
  const auto size = conf::parse_size(text);
  if (!size) exchange.log(LogLevel::kError, 0, "invalid \"{}\" value \"{}\"", name, text);
  return size.value_or(0);
}

class Rate final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    const auto& settings = exchange.settings<RateSettings>();
    const http::ResponseRate* set = exchange.find_state<http::ResponseRate>();
    // A subrequest's bytes leave within those of the client's request.
    if (body == nullptr || exchange.is_subrequest() || (settings.rate.empty() && set == nullptr))
      return body;
    auto& rate = exchange.state<http::ResponseRate>();
    if (!rate.bytes_per_second)
      rate.bytes_per_second = size_of(settings.rate, exchange, "limit_rate");
    if (!rate.after) rate.after = size_of(settings.after, exchange, "limit_rate_after");
    return body;
  }
};

constexpr Rate kRate;

template <auto Field>
bool set_rate(const conf::Setting& s) {
  std::uint64_t literal = 0;
  expr::Program& program = static_cast<RateSettings*>(s.settings)->*Field;
  if (expr::has_variables(s.word(0))) return expr::read_program(s, 0, program);
  if (!conf::read_size(s, 0, literal)) return false;
  if (literal != 0) return expr::read_program(s, 0, program);
  program = {};  // What nobody limits costs no evaluation.
  return true;
}

constexpr conf::Context kContexts = conf::kHttpServerLocation | conf::Context::kIfLocation;

constexpr conf::Directive kDirectives[] = {
    {.name = "limit_rate",
     .contexts = kContexts,
     .syntax = "rate",
     .set = set_rate<&RateSettings::rate>,
     .default_value = "0",
     .doc = "Bytes per second at which the body of a response goes to its client, on average since "
            "it began; k, m and g are understood, and variables. Holds for each request, so that a "
            "client with two connections or two streams gets twice as much. 0: no limit. \"set "
            "$limit_rate\" and an origin's X-Accel-Limit-Rate have precedence."},
    {.name = "limit_rate_after",
     .contexts = kContexts,
     .syntax = "size",
     .set = set_rate<&RateSettings::after>,
     .default_value = "0",
     .doc = "Bytes of the body that go out before limit_rate holds. Variables are understood."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<RateSettings>("rate", kDirectives);

}  // namespace

const http::Transform& rate() { return kRate; }
const conf::Module& rate_module() { return kModule; }

}  // namespace corehttpd::transform
