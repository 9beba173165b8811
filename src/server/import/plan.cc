#include "server/import/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace corehttpd::server::importer {

using conf::Context;
using conf::Stage;

namespace {}  // namespace

Plan::Plan(const Roots& roots, const Tree& tree, const conf::Tables& tables,
           const Refusals& refusals, const std::set<std::string>& unguarded, Report& report)
    : roots_(roots),
      tree_(tree),
      tables_(tables),
      refusals_(refusals),
      unguarded_(unguarded),
      report_(report) {}

// What decisions about one directive have to know of others.
void Plan::prepare() {
  const auto names_address = [](const Token& word) {
    return word.value.find("remote_addr") != std::string::npos;
  };
  for (const Scope& scope : tree_.scopes()) {
    for (const Place& place : scope.statements) {
      const Statement& statement = *place.statement;
      const std::string_view name = statement.name();
      if (name == "set") set_names_.emplace(statement.word(0));
      if (name == "upstream" && refusals_.contains(place))
        lost_upstreams_.emplace(statement.word(0));
      const bool rule = name == "if" || name == "map" || name == "geo" || name == "set" ||
                        name == "rewrite" || name == "split_clients";
      if (rule && (name == "geo" ||
                   std::any_of(statement.words.begin(), statement.words.end(), names_address))) {
        rules_on_addresses_ = true;
      }
    }
  }
}

void Plan::make() {
  prepare();
  check_scope(tree_.root());
  for (const Scope& scope : tree_.scopes()) check_scope(scope);
  for (const Place& place : tree_.opaque()) {
    const auto found = refusals_.find(place);
    if (found != refusals_.end()) take_out(place, found->second);
  }
  write_closings();
}

bool Plan::is_out(const Place& place) const {
  for (auto it = out_.lower_bound({place.file, nullptr}); it != out_.end(); ++it) {
    if (it->file != place.file) return false;
    const Statement& other = *it->statement;
    if (other.begin <= place.statement->begin && place.statement->end <= other.end) return true;
  }
  return false;
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
    return add_problem(scope, place, {known ? "is not allowed here" : "is not known here", {}, {}},
                       known);
  }
  const conf::Directive& directive = *row->directive;
  if (name == "load_module") return check_load_module(place);
  switch (directive.stage) {
    case Stage::kWorks:
      if (!leads_to_lost_upstream(*place.statement)) return;
      return add_problem(scope, place, {"leads to an upstream that is lost", {}, {}}, true);
    case Stage::kNoMeaning:
      return note(place, Weight::kInfo, "has no meaning here and is ignored",
                  std::string(directive.doc));
    case Stage::kLater:
      return note(place, Weight::kDiffers, "is not supported yet and is ignored",
                  std::string(directive.doc));
    case Stage::kRefused:
      return add_problem(scope, place, {"is not supported yet", std::string(directive.doc), {}},
                         true);
  }
}

// The name of a group that had to be taken out would be looked up as a host's.
bool Plan::leads_to_lost_upstream(const Statement& statement) const {
  if (!statement.name().ends_with("_pass")) return false;
  std::string_view target = statement.word(0);
  if (const std::size_t scheme = target.find("://"); scheme != std::string_view::npos)
    target.remove_prefix(scheme + 3);
  return lost_upstreams_.contains(target.substr(0, target.find('/')));
}

bool Plan::is_defined_by_rule(const Statement& statement) const {
  // The variable of "map $a $b {…}", "geo $b {…}", "js_set $b f".
  return std::any_of(statement.words.begin() + 1, statement.words.end(), [&](const Token& word) {
    return word.value.starts_with('$') && set_names_.contains(word.value);
  });
}

Effect Plan::weigh(const Scope& scope, const Statement& statement, bool known) const {
  const Effect effect = effect_of(statement, scope.context, known);
  // A variable that a "set" defines elsewhere would silently be empty, not unknown.
  if (effect == Effect::kNothing && scope.context == Context::kHttp &&
      is_defined_by_rule(statement)) {
    return Effect::kGuard;
  }
  // Without it the proxy in front is taken for the client: of no consequence where no rule looks at
  // addresses and nobody trusts the proxy's.
  if (statement.name() == "set_real_ip_from" && !rules_on_addresses_ &&
      !is_trusted_address(statement.word(0))) {
    return Effect::kNothing;
  }
  return effect;
}

// "deny all" is what closes; who means it has to say so.
bool Plan::is_unguarded(const Statement& statement) const {
  const std::string name(statement.name());
  const std::string first(statement.word(0));
  if (unguarded_.contains(name + " " + first)) return true;
  return unguarded_.contains(name) && !(name == "deny" && first == "all");
}

void Plan::add_problem(const Scope& scope, const Place& place, const Refusal& refusal, bool known) {
  if (substitute(place, refusal)) return;
  const Statement& statement = *place.statement;
  const Effect effect = weigh(scope, statement, known);
  take_out(place, refusal);
  why_.try_emplace(place, refusal.message);
  if (is_unguarded(statement)) {
    return note(place, Weight::kReplaced, "taken out at your word: what it guarded is open");
  }
  if (effect == Effect::kNone) {
    return note(
        place, Weight::kInfo,
        fmt::format("{}; it is a comment now and guards nothing by itself", refusal.message));
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

namespace {

// The variable of the compiler's "unknown "x" variable"; empty: it says something else.
std::string unknown_variable(std::string_view message) {
  constexpr std::string_view kBefore = "unknown \"";
  constexpr std::string_view kAfter = "\" variable";
  if (!message.starts_with(kBefore) || !message.ends_with(kAfter)) return {};
  message.remove_prefix(kBefore.size());
  message.remove_suffix(kAfter.size());
  return std::string(message);
}

// Replaces $name and ${name} in a word as written. False: it is not there.
bool replace_variable(std::string& raw, const std::string& name, std::string_view with) {
  bool found = false;
  for (const std::string& form : {"${" + name + "}", "$" + name}) {
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = raw.find(form); at != std::string::npos; at = raw.find(form, from)) {
      const std::size_t end = at + form.size();
      const unsigned char next = end < raw.size() ? raw[end] : ' ';
      out.append(raw, from, at - from);
      from = end;
      if (form[1] != '{' && (std::isalnum(next) != 0 || next == '_')) {
        out += form;  // Another one, whose name only starts like it.
      } else {
        out += with;
        found = true;
      }
    }
    raw = out.append(raw, from);
  }
  return found;
}

}  // namespace

// Where a directive only shows unknown variables, it shows what nginx shows for empty ones.
bool Plan::substitute(const Place& place, const Refusal& refusal) {
  if (shows_variables(place.statement->name()) == Shows::kNo || refusal.messages.empty())
    return false;
  const std::vector<Token>& words = place.statement->words;
  std::vector<std::string> raw;
  for (const Token& word : words)
    raw.push_back(place.file->text().substr(word.begin, word.end - word.begin));
  const std::vector<std::string> before = raw;
  for (const std::string& message : refusal.messages) {
    if (!substitute_one(place, message, raw)) return false;
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (raw[i] == before[i]) continue;
    edits_[place.file].replace(words[i].begin, words[i].end, raw[i].empty() ? "\"\"" : raw[i]);
  }
  const bool dash = shows_variables(place.statement->name()) == Shows::kAsDash;
  for (const std::string& message : refusal.messages) {
    note(place, Weight::kDiffers,
         fmt::format("${} is not known here; it is {} now", unknown_variable(message),
                     dash ? "\"-\"" : "empty"));
  }
  return true;
}

bool Plan::substitute_one(const Place& place, std::string_view message,
                          std::vector<std::string>& raw) {
  const std::string name = unknown_variable(message);
  const Shows shows = shows_variables(place.statement->name());
  if (name.empty() || (shows == Shows::kAsNothingIfEmpty && !is_tls_variable(name))) return false;
  bool found = false;
  for (std::size_t i = 1; i < raw.size(); ++i) {
    if (replace_variable(raw[i], name, shows == Shows::kAsDash ? "-" : "")) found = true;
  }
  return found;
}

// Whether the module is one of those whose directives are known here, told by its name:
// ngx_http_geoip_module has geoip_country.
void Plan::check_load_module(const Place& place) {
  std::string stem(place.statement->word(0));
  stem.erase(0, stem.rfind('/') + 1);
  for (const std::string_view start : {"ngx_http_", "ngx_"}) {
    if (stem.starts_with(start)) stem.erase(0, start.size());
  }
  for (const std::string_view end : {".so", "_module", "_filter"}) {
    if (stem.ends_with(end) && tables_.contexts(stem) == Context::kNone)
      stem.erase(stem.size() - end.size());
  }
  const auto rows = tables_.rows();
  const bool known = std::any_of(rows.begin(), rows.end(), [&](const conf::Row& row) {
    return row.directive->name == stem || row.directive->name.starts_with(stem + "_");
  });
  if (known) {
    return note(place, Weight::kInfo, "is ignored: what it brings is built in or still to come");
  }
  note(place, Weight::kDiffers, "this module is not part of corehttpd",
       "its directives are named where they stand");
}

}  // namespace corehttpd::server::importer
