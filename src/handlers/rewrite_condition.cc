// Conditions of "if", in nginx's grammar: a variable alone, compared or matched, or a file test.
#include <vector>

#include "corehttpd/assets/file_access.h"
#include "handlers/rewrite.h"

namespace corehttpd::handlers::rewrite {
namespace {

constexpr std::string_view kForms =
    "a condition is ($variable), ($variable = text), ($variable ~ regex) or (-f path), each also "
    "with !, and no more than one of them";

// A word of the condition without the parentheses, and where it stands for errors.
struct Operand {
  std::string_view text;
  std::size_t word;
};

// The parentheses may stand by themselves or cling to the first and the last word.
bool strip_parentheses(const conf::Setting& s, std::vector<Operand>& out) {
  for (std::size_t i = 0; i < s.words().size(); ++i) out.push_back({s.word(i), i});
  if (!out.front().text.starts_with('(')) {
    return s.fail_text(0, fmt::format("invalid condition \"{}\"", out.front().text), kForms);
  }
  out.front().text.remove_prefix(1);
  // A last word that is nothing but "(" has just lost it.
  if (!out.back().text.ends_with(')')) {
    return s.fail_text(out.back().word,
                       fmt::format("invalid condition \"{}\"", s.word(out.back().word)),
                       "the condition's \")\" is missing");
  }
  out.back().text.remove_suffix(1);
  if (out.front().text.empty() && !s.node.words.front().quoted) out.erase(out.begin());
  if (!out.empty() && out.back().text.empty()) out.pop_back();
  if (out.empty()) return s.fail(0, "invalid condition \"{}\"", s.word(0));
  return true;
}

bool read_comparison(const conf::Setting& s, std::span<const Operand> operands, Condition& out) {
  const Operand& variable = operands[0];
  if (operands.size() != 1 && operands.size() != 3) {
    return s.fail_text(variable.word, fmt::format("invalid condition \"{}\"", variable.text),
                       kForms);
  }
  if (!expr::compile_program(s, variable.word, variable.text, out.left)) return false;
  if (operands.size() == 1) return true;
  const Operand& value = operands[2];
  std::string_view name = operands[1].text;
  out.negated = name.starts_with('!');
  if (out.negated) name.remove_prefix(1);
  if (name == "=") {
    out.test = Condition::Test::kEqual;
    return expr::compile_program(s, value.word, value.text, out.right);
  }
  if (name == "~" || name == "~*") {
    out.test = Condition::Test::kMatch;
    out.regex = expr::Regex::compile(s, value.word, value.text, name == "~*");
    return out.regex != nullptr;
  }
  return s.fail_text(operands[1].word,
                     fmt::format("unexpected \"{}\" in condition", operands[1].text),
                     "compared is with = and !=, matched with ~, ~*, !~ and !~*");
}

// "-f", "!-f" and so on: nothing if the text is none of them.
bool read_file_test(std::string_view text, Condition& out) {
  out.negated = text.starts_with('!');
  if (out.negated) text.remove_prefix(1);
  if (text.size() != 2 || text[0] != '-') return false;
  switch (text[1]) {
    case 'f':
      out.test = Condition::Test::kFile;
      return true;
    case 'd':
      out.test = Condition::Test::kDirectory;
      return true;
    case 'e':
      out.test = Condition::Test::kExists;
      return true;
    case 'x':
      out.test = Condition::Test::kExecutable;
      return true;
    default:
      return false;
  }
}

// A relative path is looked up where the worker stands, as nginx does it.
Verdict test_file(const Condition& condition, http::Exchange& exchange) {
  const std::string_view path = exchange.arena().copy(condition.left.evaluate(exchange));
  if (path.empty() || path.find('\0') != std::string_view::npos) return {};
  const auto asked = assets::ask(exchange, path, assets::Need::kKind);
  if (!asked.answer) return {false, asked.wait};
  const auto& entry = *asked.answer;
  if (!entry) return {};
  switch (condition.test) {
    case Condition::Test::kFile:
      return {entry->kind == assets::FileEntry::Kind::kRegular, {}};
    case Condition::Test::kDirectory:
      return {entry->kind == assets::FileEntry::Kind::kDirectory, {}};
    case Condition::Test::kExecutable:
      return {entry->executable, {}};
    default:
      return {true, {}};
  }
}

}  // namespace

bool read_condition(const conf::Setting& s, Condition& out) {
  std::vector<Operand> operands;
  if (!strip_parentheses(s, operands)) return false;
  const Operand& first = operands.front();
  if (first.text.size() > 1 && first.text[0] == '$') return read_comparison(s, operands, out);
  if (operands.size() == 2 && read_file_test(first.text, out)) {
    return expr::compile_program(s, operands[1].word, operands[1].text, out.left);
  }
  return s.fail_text(first.word, fmt::format("invalid condition \"{}\"", first.text), kForms);
}

Verdict judge(const Condition& condition, http::Exchange& exchange) {
  bool result = false;
  switch (condition.test) {
    case Condition::Test::kTrue: {
      const std::string_view value = condition.left.evaluate(exchange);
      result = !value.empty() && value != "0";
      break;
    }
    case Condition::Test::kEqual:
      result = condition.left.evaluate(exchange) == condition.right.evaluate(exchange);
      break;
    case Condition::Test::kMatch:
      result = condition.regex->match(exchange, condition.left.evaluate(exchange));
      break;
    default: {
      const Verdict verdict = test_file(condition, exchange);
      if (verdict.wait.kind != http::StepOutcome::Kind::kContinue) return verdict;
      result = verdict.holds;
      break;
    }
  }
  return {result != condition.negated, {}};
}

}  // namespace corehttpd::handlers::rewrite
