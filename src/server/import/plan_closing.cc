// What is done to a block whose guard or handler had to be taken out of it.
#include <fmt/format.h>

#include <algorithm>

#include "server/import/plan.h"

namespace corehttpd::server::importer {

using conf::Context;

namespace {

const Scope* closable(const Scope* scope) {
  while (scope != nullptr && scope->context != Context::kServer &&
         scope->context != Context::kLocation) {
    scope = scope->parent;
  }
  return scope;
}

bool is_if(const Scope& scope) {
  return scope.context == Context::kIfServer || scope.context == Context::kIfLocation;
}

bool has_name(const Scope& scope, std::string_view name) {
  return std::any_of(scope.statements.begin(), scope.statements.end(),
                     [&](const Place& place) { return place.statement->name() == name; });
}

}  // namespace

// Whether requests are answered by the block's own rules before any guard is asked: nginx runs them
// first.
bool Plan::answers_before_guards(const Scope& scope) const {
  if (may_end_early(scope)) return false;
  return std::any_of(scope.statements.begin(), scope.statements.end(), [&](const Place& place) {
    return place.statement->name() == "return" && !out_.contains(place) &&
           !refusals_.contains(place);
  });
}

bool Plan::may_end_early(const Scope& scope) const {
  for (const Place& place : scope.statements) {
    const std::string_view name = place.statement->name();
    if (may_end_rules(name, tables_.contexts(name) != Context::kNone)) return true;
  }
  return std::any_of(scope.children.begin(), scope.children.end(),
                     [&](const Scope* child) { return is_if(*child) && may_end_early(*child); });
}

bool Plan::replaces(const Scope& scope, std::string_view family) const {
  if (family.empty()) return false;
  return std::any_of(scope.statements.begin(), scope.statements.end(), [&](const Place& place) {
    return guard_family(place.statement->name()) == family;
  });
}

// "deny all" and nothing that lets anybody in: a 403 for everybody, which needs no guard.
bool Plan::only_denies_all(const Scope& scope, const Place& reason) const {
  if (reason.statement->name() != "deny" || reason.statement->word(0) != "all") return false;
  if (scope.context != Context::kLocation || has_name(scope, "allow")) return false;
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    if (has_name(*at, "satisfy")) return false;
  }
  return std::count_if(scope.statements.begin(), scope.statements.end(),
                       [](const Place& place) { return place.statement->name() == "deny"; }) == 1;
}

void Plan::close_for(const Scope& scope, const Problem& problem) {
  const Scope* target = closable(&scope);
  if (problem.effect == Effect::kListen && scope.context == Context::kServer) {
    return drop_server(scope, problem.place);
  }
  if (target == nullptr) {
    note(problem.place, Weight::kReplaced, "it guards all sites: each of them answers 503 now");
    return close_below(scope, Answer::kUnavailable503, problem.place);
  }
  if (problem.effect == Effect::kHandler && target->context == Context::kLocation) {
    // A handler is not inherited; blocks within the location have their own.
    return close(*target, Answer::kUnavailable502, problem.place);
  }
  const bool forbids = target == &scope && only_denies_all(scope, problem.place);
  const Answer answer = forbids ? Answer::kForbidden : Answer::kUnavailable503;
  close(*target, answer, problem.place);
  // A server that answers by itself reaches none of its locations.
  if (target->context == Context::kLocation) close_below(*target, answer, problem.place);
}

// The blocks that inherit a guard: a location inside may be reached without its outer one.
void Plan::close_below(const Scope& scope, Answer answer, const Place& reason) {
  for (const Scope* child : scope.children) {
    if (child->context != Context::kServer && child->context != Context::kLocation) continue;
    if (replaces(*child, guard_family(reason.statement->name()))) continue;
    close(*child, answer, reason);
    if (child->context == Context::kLocation) close_below(*child, answer, reason);
  }
}

void Plan::close(const Scope& scope, Answer answer, const Place& reason) {
  if (answers_before_guards(scope)) {
    const bool handler = answer == Answer::kUnavailable502;
    return note(reason, Weight::kReplaced,
                fmt::format("taken out; {} answers by \"return\" before it would {}",
                            block_name(scope.block), handler ? "act" : "guard anything"));
  }
  Closing& closing = closings_[scope.block];
  closing.answer = std::max(closing.answer, answer);
  closing.reasons.insert(reason);
  closing.at_start = closing.at_start || may_end_early(scope);
  if (answer == Answer::kForbidden) {
    return note(
        reason, Weight::kInfo,
        fmt::format("{} answers 403 by \"return\" now, as it did", block_name(scope.block)));
  }
  note(reason, Weight::kReplaced,
       fmt::format("{}; {} answers {} instead", why_[reason], block_name(scope.block),
                   answer == Answer::kUnavailable502 ? "502" : "503"),
       answer == Answer::kUnavailable502
           ? "keep this site with nginx, or remove the \"return\" once the directive works"
           : "guard it by other means and remove the \"return\", or keep this site with nginx");
}

// A server whose listen is not understood must not appear on port 80 in its stead.
void Plan::drop_server(const Scope& server, const Place& reason) {
  const bool other =
      std::any_of(server.statements.begin(), server.statements.end(), [&](const Place& place) {
        return place.statement->name() == "listen" && !refusals_.contains(place);
      });
  if (other) {
    return note(reason, Weight::kReplaced, "this address is left out; the site has others",
                refusals_.contains(reason) ? refusals_.at(reason).message : "");
  }
  take_out(server.block, {"has no address left to listen on", {}, {}});
  note(reason, Weight::kReplaced,
       "it is the only address of the site, which is left out as a whole",
       refusals_.contains(reason) ? refusals_.at(reason).message : "");
}

void Plan::write_closings() {
  for (const auto& [block, closing] : closings_) {
    if (is_out(block)) continue;
    const std::string_view code = closing.answer == Answer::kUnavailable502 ? "502" : "503";
    std::string reasons;
    for (const Place& reason : closing.reasons) {
      const std::string name(reason.statement->name());
      if (reasons.find("\"" + name + "\"") == std::string::npos)
        reasons.append(reasons.empty() ? "\"" : ", \"").append(name).append("\"");
    }
    // The body keeps error_page away, which could lead to what has just been closed.
    const std::string line =
        closing.answer == Answer::kForbidden
            ? "return 403;  # corehttpd: in the place of \"deny all\""
            : fmt::format("return {} \"Service Unavailable\\n\";  # corehttpd: without {}", code,
                          reasons);
    const Statement& statement = *block.statement;
    Edits& edits = edits_[block.file];
    if (closing.at_start) {
      edits.prepend_to_block(block.file->text(), statement.begin, statement.body_begin, line);
    } else {
      edits.append_to_block(block.file->text(), statement.begin, statement.body_end, line);
    }
  }
}

}  // namespace corehttpd::server::importer
