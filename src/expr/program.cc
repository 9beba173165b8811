#include "corehttpd/expr/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/http/exchange.h"
#include "expr/registry.h"

namespace corehttpd::expr {
namespace {

constexpr bool is_name_char(char c) {
  return text::is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

// Splits a text into parts. Names are nginx's: letters, digits and underscores, in braces if what
// follows would belong to them; $1 to $9 are captures of one digit.
class ProgramCompiler {
 public:
  ProgramCompiler(conf::Compiler& compiler, const conf::Word& word)
      : compiler_(compiler), word_(word) {}

  bool run(std::string_view text, Program& out) {
    Arena& arena = compiler_.arena();
    text = arena_owned(text);
    std::size_t literal = 0;  // Where the literal before the next variable starts.
    for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at)) {
      if (at > literal) parts_.push_back({.text = text.substr(literal, at - literal)});
      if (!read_variable(text, at)) return false;
      literal = at;
    }
    if (literal < text.size()) parts_.push_back({.text = text.substr(literal)});
    const std::span<Part> parts = arena.make_array<Part>(parts_.size());
    std::copy(parts_.begin(), parts_.end(), parts.begin());
    out.parts_ = parts;
    out.source_ = text;
    RegistryData& data = RegistryData::of(compiler_);
    for (Part& part : parts) {
      if (part.kind != Part::Kind::kVariable) continue;
      data.unresolved.push_back({&part, word_.at, word_.text.size() + (word_.quoted ? 2 : 0)});
    }
    if (data.complete) resolve_programs(compiler_);  // Another module's finish() asks.
    return true;
  }

 private:
  // The word itself lives as long as the configuration: only other texts need a copy.
  std::string_view arena_owned(std::string_view text) const {
    const char* const first = word_.text.data();
    if (text.data() >= first && text.data() + text.size() <= first + word_.text.size()) return text;
    return compiler_.arena().copy(text);
  }

  // at: the '$'; moved past the variable.
  bool read_variable(std::string_view text, std::size_t& at) {
    std::size_t next = at + 1;
    if (next < text.size() && text[next] >= '1' && text[next] <= '9') {
      parts_.push_back(
          {.kind = Part::Kind::kCapture, .number = static_cast<std::uint32_t>(text[next] - '0')});
      at = next + 1;
      return true;
    }
    const bool braced = next < text.size() && text[next] == '{';
    if (braced) ++next;
    std::size_t end = next;
    while (end < text.size() && is_name_char(text[end])) ++end;
    const std::string_view name = text.substr(next, end - next);
    if (braced && (end == text.size() || text[end] != '}')) {
      return fail(fmt::format("the closing bracket in \"{}\" variable is missing", name));
    }
    if (name.empty()) return fail("invalid variable name");
    parts_.push_back({.kind = Part::Kind::kVariable, .text = name});
    at = braced ? end + 1 : end;
    return true;
  }

  bool fail(std::string message) const {
    compiler_.diagnostics().add(conf::Severity::kError, word_.at, std::move(message), {},
                                word_.text.size() + (word_.quoted ? 2 : 0));
    return false;
  }

  conf::Compiler& compiler_;
  const conf::Word& word_;
  std::vector<Part> parts_;
};

bool compile_program(conf::Compiler& compiler, const conf::Word& word, std::string_view text,
                     Program& out) {
  return ProgramCompiler(compiler, word).run(text, out);
}

bool compile_program(const conf::Setting& setting, std::size_t word, std::string_view text,
                     Program& out) {
  const conf::Node& node = setting.node;
  return compile_program(setting.compiler, word < node.words.size() ? node.words[word] : node.name,
                         text, out);
}

bool has_variables(std::string_view text) { return text.find('$') != std::string_view::npos; }

namespace {

// "did you mean "$host"?", or empty.
std::string nearest_help(const RegistryData& data, std::string_view name) {
  // A third of the letters may differ, as with directives.
  const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 1, 4) + 1;
  std::size_t best = limit;
  std::string_view nearest;
  const auto consider = [&](std::string_view other) {
    const std::size_t distance = text::edit_distance(name, other, limit);
    // The tables have no order of their own; the same file is always told the same.
    if (distance > best || (distance == best && (nearest.empty() || other > nearest))) return;
    best = distance;
    nearest = other;
  };
  for (const auto& [other, variable] : data.builtins) consider(other);
  for (const auto& [other, variable] : data.users) consider(other);
  return nearest.empty() ? std::string() : fmt::format("did you mean \"${}\"?", nearest);
}

}  // namespace

void resolve_programs(conf::Compiler& compiler) {
  RegistryData& data = RegistryData::of(compiler);
  const Registry& names = registry(compiler);
  for (const Unresolved& one : data.unresolved) {
    Part& part = *one.part;
    const std::optional<Registry::Found> found = names.find(part.text);
    if (!found) {
      compiler.diagnostics().add(conf::Severity::kError, one.at,
                                 fmt::format("unknown \"{}\" variable", part.text),
                                 nearest_help(data, part.text), one.width);
    } else if (found->variable != nullptr) {
      part.get = found->variable->get;
      part.text = found->suffix;
    } else if (found->compute != nullptr) {
      part.kind = Part::Kind::kCompute;
      part.compute = found->compute;
      part.context = found->context;
    } else {
      part.kind = Part::Kind::kSlot;
      part.number = found->slot;
      part.warn_unset = found->warn_unset;
    }
  }
  data.unresolved = {};
  data.complete = true;
}

Value evaluate_part(const Part& part, http::Exchange& exchange) {
  switch (part.kind) {
    case Part::Kind::kLiteral:
      return part.text;
    case Part::Kind::kVariable:
      return part.get(exchange, part.text);
    case Part::Kind::kSlot: {
      const Value value = get_slot(exchange, part.number);
      if (value || !part.warn_unset) return value;
      if (exchange.settings<Settings>().uninitialized_variable_warn) {
        exchange.log(LogLevel::kWarn, 0, "using uninitialized \"{}\" variable", part.text);
      }
      return std::string_view("");
    }
    case Part::Kind::kCompute:
      return part.compute(exchange, part.context);
    case Part::Kind::kCapture: {
      const auto captures = exchange.captures();
      if (part.number < captures.size()) return captures[part.number];
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::string_view Program::evaluate(http::Exchange& exchange) const {
  if (parts_.empty()) return {};
  if (parts_.size() == 1) return evaluate_part(parts_[0], exchange).value_or(std::string_view());
  // Values first, so that the length is known and one allocation holds the result.
  constexpr std::size_t kOnStack = 16;
  std::array<std::string_view, kOnStack> stack;
  std::span<std::string_view> values(stack);
  if (parts_.size() > kOnStack) {
    values = exchange.arena().make_array<std::string_view>(parts_.size());
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    values[i] = evaluate_part(parts_[i], exchange).value_or(std::string_view());
  }
  return exchange.arena().concat_views(values.first(parts_.size()));
}

}  // namespace corehttpd::expr
