#include "handlers/gateway/pass_target.h"

#include <vector>

#include "upstream/backends.h"

namespace corehttpd::handlers {
namespace {

struct PendingTarget {
  PassTarget* target;
  const conf::Scope* scope;  // The block it stands in.
};
struct PendingTargets {
  std::vector<PendingTarget> targets;
};

}  // namespace

const PassTarget* make_target(const conf::Setting& s) {
  std::string_view text = s.word(0);
  constexpr std::string_view kScheme = "uwsgi://";
  if (s.name() == "uwsgi_pass" && text.starts_with(kScheme) && !expr::has_variables(text))
    text.remove_prefix(kScheme.size());
  if (text.empty()) {
    s.fail(0, "no server in \"{}\"", s.name());
    return nullptr;
  }
  PassTarget* target = s.arena().make<PassTarget>();
  target->text = s.arena().copy(text);
  target->at = s.words()[0].at;
  if (expr::has_variables(text) && !expr::read_program(s, 0, target->program)) return nullptr;
  s.compiler.object_or_make<PendingTargets>().targets.push_back({target, &s.scope});
  return target;
}

void resolve_targets(conf::Compiler& compiler) {
  auto& pending = compiler.object_or_make<PendingTargets>().targets;
  upstream::Groups& groups = compiler.object_or_make<upstream::Groups>();
  upstream::Backends& backends = compiler.object_or_make<upstream::Backends>();
  for (const auto& [target, scope] : pending) {
    target->groups = &groups;
    target->backends = &backends;
    if (!target->program.empty()) {
      backends.dynamic = true;
      continue;
    }
    target->group = groups.find(target->text);
    if (target->group == nullptr) {
      target->group = groups.implicit(compiler, target->at, target->text);
    }
    if (target->group == nullptr) continue;
    upstream::report_unresolved(compiler, *scope, target->at, *target->group);
  }
  pending.clear();
}

std::uint16_t find_origin(const PassTarget& target, http::Exchange& exchange,
                          upstream::GatewayPass& pass) {
  pass.group = target.group;
  if (pass.group != nullptr) return 0;
  // An empty one is a target that was refused when the configuration was compiled.
  if (target.program.empty()) return 502;
  const std::string_view text = target.program.evaluate(exchange);
  pass.group = target.groups->find(text);
  if (pass.group == nullptr) pass.group = target.groups->find_implicit(text);
  if (pass.group != nullptr) return 0;
  Arena& arena = exchange.arena();
  std::string_view address = text;
  // As in configuration, a colon may end the path of a unix socket.
  if (address.starts_with("unix:")) address = address.substr(0, address.find(':', 5));
  const Result<io::Address> parsed = io::parse_address(address, 0);
  if (parsed && !io::is_any_host(address)) {
    pass.group = upstream::make_group(arena, text, {&*parsed, 1}, 0, *target.backends);
    return 0;
  }
  Result<io::HostPort> name = fail(Code::kMalformed, "not a name");
  if (!parsed && parsed.error().code == Code::kNotFound) name = io::split_host_port(text, 0);
  if (!name) {
    exchange.log(LogLevel::kError, 0, "invalid address \"{}\" in upstream", text);
    return 500;
  }
  const auto& resolver = exchange.settings<upstream::ResolverSettings>();
  if (resolver.resolver == nullptr) {
    exchange.log(LogLevel::kError, 0, "no resolver defined to resolve {}", name->host);
    return 502;
  }
  auto* named = arena.make<upstream::NamedOrigin>();
  *named = {text, name->host, name->port, &resolver, target.backends};
  pass.named = named;
  return 0;
}

}  // namespace corehttpd::handlers
