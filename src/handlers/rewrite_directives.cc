// The directives of the rewrite module.
#include <algorithm>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/rewrite.h"
#include "corehttpd/http/location_reset.h"
#include "corehttpd/route/tree.h"
#include "handlers/rewrite.h"

namespace corehttpd::handlers {
namespace rewrite {
namespace {

using conf::Context;
using conf::Setting;

// All scripts of the configuration: blocks are compiled after simple directives, so the order of
// the file is restored at the end.
struct Scripts {
  std::vector<Script*> all;
};

Script* make_script(conf::Compiler& compiler) {
  Script* const script = compiler.arena().make<Script>();
  compiler.object_or_make<Scripts>().all.push_back(script);
  return script;
}

void forget_script(conf::Compiler& compiler, conf::Scope& location) {
  if (location.view().get<Settings>().script == nullptr) return;
  compiler.settings<Settings>(location).script = nullptr;
}

bool add(const Setting& s, Instruction instruction) {
  http::LocationResets::add(s.compiler, forget_script);
  Settings& settings = *static_cast<Settings*>(s.settings);
  if (settings.script == nullptr) settings.script = make_script(s.compiler);
  instruction.order = s.order;
  settings.script->instructions.push_back(s.arena(), instruction);
  return true;
}

bool is_url(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://") || text.starts_with("$scheme");
}

bool set_break(const Setting& s) {
  return add(s, {.kind = Instruction::Kind::kBreak, .set = nullptr});
}

bool set_variable(const Setting& s) {
  std::string_view name = s.word(0);
  if (name.size() < 2 || name[0] != '$') return s.fail(0, "invalid variable name \"{}\"", name);
  name.remove_prefix(1);
  Set* const set = s.arena().make<Set>();
  set->builtin = expr::registry(s.compiler).builtin(name);
  if (set->builtin != nullptr && !set->builtin->assignable) {
    return s.fail(0, "the duplicate \"{}\" variable", name);
  }
  if (set->builtin == nullptr) {
    set->slot = expr::registry(s.compiler).declare(name, expr::Registry::Unset::kWarn);
  }
  if (!expr::read_program(s, 1, set->value)) return false;
  return add(s, {.kind = Instruction::Kind::kSet, .set = set});
}

bool set_return(const Setting& s) {
  Return* const answer = s.arena().make<Return>();
  std::size_t text = 1;
  if (const auto status = text::parse_decimal(s.word(0)); status && *status <= 999) {
    answer->status = static_cast<std::uint16_t>(*status);
  } else if (s.words().size() == 1 && is_url(s.word(0))) {
    answer->status = 302;
    text = 0;
  } else {
    return s.fail(0, "invalid return code \"{}\"", s.word(0));
  }
  if (text < s.words().size()) {
    answer->has_text = true;
    if (!expr::read_program(s, text, answer->text)) return false;
  }
  return add(s, {.kind = Instruction::Kind::kReturn, .answer = answer});
}

bool read_flag(const Setting& s, Rewrite& out) {
  const std::string_view flag = s.word(2);
  if (flag == "last") {
    out.then = Rewrite::Then::kLast;
  } else if (flag == "break") {
    out.then = Rewrite::Then::kBreak;
  } else if (flag == "redirect" || flag == "permanent") {
    out.then = Rewrite::Then::kRedirect;
    out.status = flag == "redirect" ? 302 : 301;
  } else {
    return s.fail(2, "invalid parameter \"{}\"", flag);
  }
  return true;
}

bool set_rewrite(const Setting& s) {
  Rewrite* const rewrite = s.arena().make<Rewrite>();
  rewrite->regex = expr::Regex::compile(s, 0, s.word(0), false);
  if (rewrite->regex == nullptr) return false;
  std::string_view replacement = s.word(1);
  if (replacement.empty()) return s.fail(1, "empty replacement");
  if (s.words().size() == 3 && !read_flag(s, *rewrite)) return false;
  if (is_url(replacement) && rewrite->then != Rewrite::Then::kRedirect) {
    rewrite->then = Rewrite::Then::kRedirect;
    rewrite->status = 302;
  }
  if (replacement.ends_with('?')) {
    rewrite->keep_args = false;
    replacement.remove_suffix(1);
  }
  const std::size_t question = replacement.find('?');
  if (!expr::compile_program(s, 1, replacement.substr(0, question), rewrite->path)) return false;
  if (question != std::string_view::npos) {
    rewrite->has_args = true;
    if (!expr::compile_program(s, 1, replacement.substr(question + 1), rewrite->args)) {
      return false;
    }
  }
  return add(s, {.kind = Instruction::Kind::kRewrite, .rewrite = rewrite});
}

bool open_if(const Setting& s) {
  If* const branch = s.arena().make<If>();
  if (!read_condition(s, branch->condition)) return false;
  if (!add(s, {.kind = Instruction::Kind::kIf, .branch = branch})) return false;
  Script* const body = make_script(s.compiler);
  branch->body = body;
  s.compiler.settings<Settings>(*s.child).script = body;
  if (s.scope.context == Context::kLocation) {
    branch->location = route::open_inner_location(s.compiler, *s.child);
  }
  return true;
}

void finish(conf::Compiler& compiler) {
  Scripts& scripts = compiler.object_or_make<Scripts>();
  for (Script* script : scripts.all) {
    std::stable_sort(script->instructions.begin(), script->instructions.end(),
                     [](const Instruction& a, const Instruction& b) { return a.order < b.order; });
  }
  scripts = {};
}

constexpr Context kEverywhere =
    Context::kServer | Context::kLocation | Context::kIfServer | Context::kIfLocation;

constexpr conf::Directive kDirectives[] = {
    {.name = "break",
     .contexts = kEverywhere,
     .arity = conf::exactly(0),
     .set = set_break,
     .inherit = conf::Inherit::kNone,
     .doc = "Ends the rewrite directives of this block; the location stays."},
    {.name = "if",
     .contexts = Context::kLocation,
     .kind = conf::Kind::kBlock,
     .arity = conf::at_least(1),
     .syntax = "(condition)",
     .set = open_if,
     .inherit = conf::Inherit::kNone,
     .doc = "Rewrite directives, and settings for the rest of the request, if the condition holds: "
            "$x, $x = y, $x ~ regex, -f, -d, -e, -x and their negations.",
     .opens = Context::kIfLocation},
    {.name = "if",
     .contexts = Context::kServer,
     .kind = conf::Kind::kBlock,
     .arity = conf::at_least(1),
     .syntax = "(condition)",
     .set = open_if,
     .inherit = conf::Inherit::kNone,
     .doc = "Rewrite directives for when the condition holds: $x, $x = y, $x ~ regex, -f, -d, -e, "
            "-x and their negations.",
     .opens = Context::kIfServer},
    {.name = "return",
     .contexts = kEverywhere,
     .arity = conf::between(1, 2),
     .syntax = "code [text] | code URL | URL",
     .set = set_return,
     .inherit = conf::Inherit::kNone,
     .doc = "Answers at once. 444 closes the connection without an answer."},
    {.name = "rewrite",
     .contexts = kEverywhere,
     .arity = conf::between(2, 3),
     .syntax = "regex replacement [last | break | redirect | permanent]",
     .set = set_rewrite,
     .inherit = conf::Inherit::kNone,
     .doc = "Changes the URI, or redirects, if it matches. Arguments are kept unless the "
            "replacement ends in \"?\"."},
    {.name = "rewrite_log",
     .contexts = conf::kHttpServerLocation | Context::kIfServer | Context::kIfLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&Settings::rewrite_log>,
     .default_value = "off",
     .doc = "Whether what rewrite directives do is written to the error log at level notice."},
    {.name = "set",
     .contexts = kEverywhere,
     .arity = conf::exactly(2),
     .syntax = "$variable value",
     .set = set_variable,
     .inherit = conf::Inherit::kNone,
     .doc = "Gives a variable a value."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<Settings>("rewrite", kDirectives, finish);

}  // namespace
}  // namespace rewrite

const conf::Module& rewrite_module() { return rewrite::kModule; }

}  // namespace corehttpd::handlers
