#include "corehttpd/access/auth_request.h"

#include <memory>

#include "access/gate.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/subrequest.h"
#include "corehttpd/http/target.h"

namespace corehttpd::access {
namespace {

using conf::Setting;
using http::Exchange;
using http::Subrequest;

// Lives in the parent's arena for as long as it waits. If the parent ends first the subrequest is
// aborted and nothing is heard here.
class Answer final : public http::SubrequestListener {
 public:
  Answer(Exchange& parent, std::span<const AuthVariable> variables)
      : parent_(parent), variables_(variables) {}

  void on_done(Subrequest& subrequest, const Error* error) override {
    Exchange& child = subrequest.exchange();
    set_variables(child);
    conclude(parent_, judge(child.response(), error));
  }

 private:
  void set_variables(Exchange& child) {
    for (const AuthVariable& variable : variables_) {
      const std::string_view value = variable.value.evaluate(child);
      if (variable.built_in != nullptr) {
        variable.built_in->assign(parent_, parent_.arena().copy(value));
      } else {
        expr::set_slot(child, variable.slot, value);
      }
    }
  }

  Verdict judge(const http::ResponseHead& response, const Error* error) {
    const std::uint16_t status = error == nullptr ? response.status : 0;
    if (status >= 200 && status < 300) return Verdict::granted();
    if (status == 403) return Verdict::refused(403);
    if (status == 401) {
      take_challenges(response);
      return Verdict::refused(401);
    }
    parent_.log(LogLevel::kError, 0, "auth request unexpected status: {} while sending to client",
                error == nullptr ? status : response.status);
    return Verdict::refused(500);
  }

  void take_challenges(const http::ResponseHead& response) {
    for (const http::Field& field : response.fields) {
      if (field.id == http::FieldName::kWwwAuthenticate)
        challenge(parent_, parent_.arena().copy(field.value));
    }
  }

  Exchange& parent_;
  std::span<const AuthVariable> variables_;
};

AuthRequestSettings& settings_of(const Setting& s) {
  return *static_cast<AuthRequestSettings*>(s.settings);
}

bool set_auth_request(const Setting& s) {
  std::string_view uri = s.word(0);
  if (uri == "off") {
    settings_of(s).uri = {};
    return true;
  }
  if (!uri.starts_with('/') && !uri.starts_with('@'))
    return s.fail(0, "auth_request needs a URI that begins with \"/\", or \"off\"");
  settings_of(s).uri = uri;
  return true;
}

// auth_request_set $variable value;
bool set_auth_request_set(const Setting& s) {
  const std::string_view word = s.word(0);
  if (word.size() < 2 || word.front() != '$')
    return s.fail(0, "invalid variable name \"{}\"", word);
  const std::string_view name = word.substr(1);
  AuthVariable variable;
  expr::Registry& registry = expr::registry(s.compiler);
  if (const expr::Variable* built_in = registry.builtin(name); built_in != nullptr) {
    if (!built_in->assignable) return s.fail(0, "the duplicate \"{}\" variable", name);
    variable.built_in = built_in;
  } else {
    variable.slot = registry.declare(name);
  }
  if (!expr::read_program(s, 1, variable.value)) return false;
  AuthRequestSettings& settings = settings_of(s);
  const std::span<const AuthVariable> before =
      s.first_here ? std::span<const AuthVariable>() : settings.variables;
  auto* all = static_cast<AuthVariable*>(
      s.arena().allocate(sizeof(AuthVariable) * (before.size() + 1), alignof(AuthVariable)));
  std::uninitialized_copy(before.begin(), before.end(), all);
  new (all + before.size()) AuthVariable(variable);
  settings.variables = {all, before.size() + 1};
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "auth_request",
     .contexts = conf::kHttpServerLocation,
     .syntax = "uri | off",
     .set = set_auth_request,
     .doc = "Lets a subrequest decide on access: 2xx grants it, 401 and 403 refuse it, other "
            "answers are errors."},
    {.name = "auth_request_set",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::exactly(2),
     .syntax = "$variable value",
     .set = set_auth_request_set,
     .inherit = conf::Inherit::kList,
     .doc = "Sets a variable when the authorization subrequest is complete; the value may use the "
            "subrequest's variables ($upstream_http_…)."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<AuthRequestSettings>("auth_request", kDirectives);

}  // namespace

Verdict ask_location(Exchange& exchange) {
  const auto& settings = exchange.settings<AuthRequestSettings>();
  if (settings.uri.empty()) return Verdict::none();
  auto* answer = exchange.arena().make<Answer>(exchange, settings.variables);
  const auto [path, args] = http::split_args(settings.uri);
  if (!Subrequest::start(exchange, path, args, {}, *answer)) return Verdict::refused(500);
  return Verdict::pending();
}

const conf::Module& auth_request_module() { return kModule; }

}  // namespace corehttpd::access
