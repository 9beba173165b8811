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
  const std::string_view text = s.word(0);
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

const upstream::Group* group_of(const PassTarget& target, http::Exchange& exchange) {
  if (target.group != nullptr) return target.group;
  const std::string_view text = target.program.evaluate(exchange);
  if (const upstream::Group* found = target.groups->find(text)) return found;
  Arena& arena = exchange.arena();
  std::string_view address = text;
  // As in configuration, a colon may end the path of a unix socket.
  if (address.starts_with("unix:")) address = address.substr(0, address.find(':', 5));
  const Result<io::Address> parsed = io::parse_address(address, 0);
  if (!parsed || io::is_any_host(address)) {
    if (!parsed && parsed.error().code == Code::kNotFound) {
      exchange.log(LogLevel::kError, 0, "no resolver defined to resolve {}", text);
    } else {
      exchange.log(LogLevel::kError, 0, "invalid address \"{}\" in upstream", text);
    }
    return nullptr;
  }
  return upstream::make_group(arena, text, *parsed, *target.backends);
}

}  // namespace corehttpd::handlers
