#include "server/import/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace corehttpd::server::importer {

using conf::Context;
using conf::Stage;

namespace {

}  // namespace

Plan::Plan(const Roots& roots, const Tree& tree, const conf::Tables& tables,
           const Refusals& refusals, const std::set<std::string>& unguarded, Report& report)
    : roots_(roots),
      tree_(tree),
      tables_(tables),
      refusals_(refusals),
      unguarded_(unguarded),
      report_(report) {}

void Plan::make() {
  for (const Scope& scope : tree_.scopes()) {
    for (const Place& place : scope.statements) {
      const Statement& statement = *place.statement;
      if (statement.name() == "set") set_names_.emplace(statement.word(0));
    }
  }
  check_scope(tree_.root());
  for (const Scope& scope : tree_.scopes()) check_scope(scope);
  for (const Place& place : tree_.opaque()) {
    const auto found = refusals_.find(place);
    if (found != refusals_.end()) take_out(place, found->second);
  }
  write_closings();
}

bool Plan::is_out(const Place& place) const {
  return std::any_of(out_.begin(), out_.end(), [&](const Place& other) {
    return other.file == place.file && other.statement->begin <= place.statement->begin &&
           place.statement->end <= other.statement->end;
  });
}

std::string Plan::block_name(const Place& place) {
  if (place.statement == nullptr) return "the file";
  std::string out(place.statement->name());
  for (std::size_t i = 1; i < place.statement->words.size(); ++i) {
    out.append(" ").append(place.statement->words[i].value);
  }
  return fmt::format("\"{}\" ({}:{})", out, place.file->shown(), place.statement->line);
}

void Plan::note(const Place& place, Weight weight, std::string message, std::string advice) {
  // Files are visited once per include of theirs; what is so is said once.
  if (!noted_.emplace(place, message).second) return;
  if (tree_.is_disabled(place.file)) message += " (this file is not enabled)";
  report_.add({place.file->shown(), place.statement->line, weight,
               std::string(place.statement->name()), std::move(message), std::move(advice)});
}

void Plan::check_scope(const Scope& scope) {
  for (const Place& place : scope.statements) check_statement(scope, place);
}

void Plan::check_statement(const Scope& scope, const Place& place) {
  const std::string_view name = place.statement->name();
  const conf::Row* row = tables_.find(name, scope.context);
  if (const auto found = refusals_.find(place); found != refusals_.end()) {
    return add_problem(scope, place, found->second, row != nullptr);
  }
  if (row == nullptr) {
    const bool known = tables_.contexts(name) != Context::kNone;
    return add_problem(
        scope, place, {known ? "is not allowed here" : "is not known here (another module's?)", {}},
        known);
  }
  const conf::Directive& directive = *row->directive;
  switch (directive.stage) {
    case Stage::kWorks:
      return;
    case Stage::kNoMeaning:
      return note(place, Weight::kInfo, "has no meaning here and is ignored",
                  std::string(directive.doc));
    case Stage::kLater:
      return note(place, Weight::kDiffers, "is not supported yet and is ignored",
                  std::string(directive.doc));
    case Stage::kRefused:
      return add_problem(scope, place, {"is not supported yet", std::string(directive.doc)}, true);
  }
}

bool Plan::is_defined_by_rule(const Statement& statement) const {
  // The variable of "map $a $b {…}", "geo $b {…}", "js_set $b f".
  return std::any_of(statement.words.begin() + 1, statement.words.end(), [&](const Token& word) {
    return word.value.starts_with('$') && set_names_.contains(word.value);
  });
}

void Plan::add_problem(const Scope& scope, const Place& place, const Refusal& refusal, bool known) {
  if (substitute(place, refusal)) return;
  const Statement& statement = *place.statement;
  Effect effect = effect_of(statement, scope.context, known);
  // A variable that a "set" defines elsewhere would silently be empty, not unknown.
  if (effect == Effect::kNothing && scope.context == Context::kHttp &&
      is_defined_by_rule(statement)) {
    effect = Effect::kGuard;
  }
  take_out(place, refusal);
  if (unguarded_.contains(std::string(statement.name()))) {
    return note(place, Weight::kReplaced, "taken out at your word: what it guarded is open");
  }
  if (effect == Effect::kNothing) {
    return note(place, Weight::kReplaced, fmt::format("{}; it is a comment now", refusal.message),
                refusals_.contains(place) ? refusal.help : "");
  }
  close_for(scope, {place, effect});
}

void Plan::take_out(const Place& place, const Refusal& refusal) {
  if (!out_.insert(place).second) return;
  const Statement& statement = *place.statement;
  edits_[place.file].comment_out(
      place.file->text(), statement.begin, statement.end,
      fmt::format("corehttpd: \"{}\" {}", statement.name(), refusal.message));
}

// Where a directive only shows an unknown variable, it shows what nginx shows for an empty one.
bool Plan::substitute(const Place& place, const Refusal& refusal) {
  constexpr std::string_view kBefore = "unknown \"";
  constexpr std::string_view kAfter = "\" variable";
  const Shows shows = shows_variables(place.statement->name());
  const std::string& message = refusal.message;
  if (shows == Shows::kNo || !message.starts_with(kBefore) || !message.ends_with(kAfter))
    return false;
  const std::string name =
      message.substr(kBefore.size(), message.size() - kBefore.size() - kAfter.size());
  if (shows == Shows::kAsNothingIfEmpty && !is_tls_variable(name)) return false;
  const std::string_view shown = shows == Shows::kAsDash ? "-" : "";
  bool found = false;
  for (std::size_t i = 1; i < place.statement->words.size(); ++i) {
    const Token& word = place.statement->words[i];
    std::string raw = place.file->text().substr(word.begin, word.end - word.begin);
    const std::string before = raw;
    for (const std::string& form : {"${" + name + "}", "$" + name}) {
      for (std::size_t at = raw.find(form); at != std::string::npos; at = raw.find(form, at)) {
        const char next = at + form.size() < raw.size() ? raw[at + form.size()] : ' ';
        const bool longer =
            form[1] != '{' && (std::isalnum(static_cast<unsigned char>(next)) || next == '_');
        if (longer) {
          at += form.size();
          continue;
        }
        raw.replace(at, form.size(), shown);
      }
    }
    if (raw == before) continue;
    found = true;
    edits_[place.file].replace(word.begin, word.end, raw.empty() ? "\"\"" : raw);
  }
  if (found) {
    note(place, Weight::kDiffers,
         fmt::format("${} is not known here; it is {} now", name,
                     shown.empty() ? "empty" : "\"-\""));
  }
  return found;
}

}  // namespace corehttpd::server::importer
