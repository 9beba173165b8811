// allow, deny, satisfy, auth_delay; limit_except.
#include <algorithm>

#include "corehttpd/access/access.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/route/tree.h"

namespace corehttpd::access {
namespace {

using conf::Context;
using conf::Setting;
using http::Method;

constexpr Context kGuarded = conf::kHttpServerLocation | Context::kLimitExcept;

AccessSettings& settings_of(const Setting& s) { return *static_cast<AccessSettings*>(s.settings); }

bool add_rule(const Setting& s) {
  AccessSettings& settings = settings_of(s);
  if (settings.rules_of != &s.scope) {
    settings.rules = {};
    settings.rules_of = &s.scope;
  }
  const std::string_view text = s.word(0);
  bool low_bits = false;
  if (!settings.rules.add(s.arena(), text, s.name() == "deny", low_bits)) {
    return s.fail_text(0, fmt::format("invalid parameter \"{}\"", text),
                       "an address, a network such as 192.0.2.0/24, unix: or all");
  }
  if (low_bits) s.warn(0, "low address bits of {} are meaningless", text);
  return true;
}

constexpr std::uint32_t bit_of(Method method) {
  return std::uint32_t{1} << static_cast<unsigned>(method);
}

// The methods that nginx lets be named here.
bool may_be_excepted(Method method) {
  return method != Method::kUnknown && method != Method::kConnect && method != Method::kTrace;
}

// Blocks before this one may share the location's settings already, so these say whose they are.
bool open_limit_except(const Setting& s) {
  AccessSettings& settings = settings_of(s);
  std::uint32_t methods = 0;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    std::string upper(word);
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const Method method = http::parse_method(upper);
    if (!may_be_excepted(method)) return s.fail(i, "invalid method \"{}\"", word);
    methods |= bit_of(method);
  }
  if ((methods & bit_of(Method::kGet)) != 0) methods |= bit_of(Method::kHead);
  settings.methods = methods;
  settings.limited_in = s.scope.view();
  settings.limited = route::open_inner_location(s.compiler, *s.child);
  return true;
}

constexpr conf::Choice<AccessSettings::Satisfy> kSatisfy[] = {
    {"all", AccessSettings::Satisfy::kAll},
    {"any", AccessSettings::Satisfy::kAny},
};

class LimitExceptStep final : public http::Step {
 public:
  http::StepOutcome run(http::Exchange& exchange) const override {
    const auto& settings = exchange.settings<AccessSettings>();
    if ((settings.methods & bit_of(exchange.request().method)) == 0)
      exchange.enter_inner_location(*settings.limited);
    return http::StepOutcome::proceed();
  }
};

constexpr LimitExceptStep kLimitExceptStep;

constexpr conf::Directive kDirectives[] = {
    {.name = "allow",
     .contexts = kGuarded,
     .syntax = "address | network | unix: | all",
     .set = add_rule,
     .inherit = conf::Inherit::kList,
     .doc =
         "Lets clients in. Of a block's allow and deny rules the first that matches decides; the "
         "rules of an outer block hold only where there are none."},
    {.name = "auth_delay",
     .contexts = conf::kHttpServerLocation,
     .syntax = "time",
     .set = conf::set_time<&AccessSettings::auth_delay>,
     .default_value = "0s",
     .doc = "Holds answers with status 401 back for this time."},
    {.name = "deny",
     .contexts = kGuarded,
     .syntax = "address | network | unix: | all",
     .set = add_rule,
     .inherit = conf::Inherit::kList,
     .doc = "Keeps clients out, with status 403. See allow."},
    {.name = "limit_except",
     .contexts = Context::kLocation,
     .kind = conf::Kind::kBlock,
     .arity = conf::at_least(1),
     .syntax = "method ...",
     .set = open_limit_except,
     .doc = "Settings, above all restrictions of access, for all methods but these. GET includes "
            "HEAD. The location's rewrite directives do not run for them.",
     .opens = Context::kLimitExcept},
    {.name = "satisfy",
     .contexts = conf::kHttpServerLocation,
     .syntax = "all | any",
     .set = conf::set_choice<&AccessSettings::satisfy, kSatisfy>,
     .default_value = "all",
     .doc = "Whether all of allow and deny, auth_basic and auth_request must let a request in, or "
            "any one of them."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<AccessSettings>("access", kDirectives);

}  // namespace

const conf::Module& access_module() { return kModule; }

const http::Step* make_limit_except_step(const conf::SettingsView& settings, Arena&) {
  const auto& access = settings.get<AccessSettings>();
  return access.limited != nullptr && access.limited_in == settings ? &kLimitExceptStep : nullptr;
}

}  // namespace corehttpd::access
