// Strings with variables, compiled: "$scheme://$host$request_uri" becomes literals and getters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "corehttpd/conf/directive.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/expr/variable.h"

namespace corehttpd::expr {

struct Part {
  enum class Kind : std::uint8_t {
    kLiteral,
    kVariable,  // A built-in.
    kSlot,      // A user variable's slot.
    kCompute,   // A map's and the like.
    kCapture    // $1…$9 of the last match.
  } kind = Kind::kLiteral;
  bool warn_unset = false;   // kSlot: reading it before it is set is logged.
  std::uint32_t number = 0;  // Slot or capture.
  // Literal; suffix of a family; a user variable's name; any name until it is resolved.
  std::string_view text;
  Getter get = nullptr;
  Registry::Compute compute = nullptr;
  const void* context = nullptr;
};

// Lives in the configuration; copies share their parts. A Program that is all literal evaluates to
// its text without a copy.
class Program {
 public:
  Program() = default;
  // Also true of a program compiled from "".
  bool empty() const { return parts_.empty(); }
  bool is_literal() const {
    return parts_.empty() || (parts_.size() == 1 && parts_[0].kind == Part::Kind::kLiteral);
  }
  std::string_view source() const { return source_; }
  std::span<const Part> parts() const { return parts_; }
  // The string, in the exchange's arena (or the literal, or the one variable's own value). Unset
  // variables are "".
  std::string_view evaluate(http::Exchange& exchange) const;
  // The same for each part, handed to a function instead of being joined: what a part yields may
  // need escaping that literals don't (redirects). is_capture: the part is $1…$9.
  template <class F>
  void for_each(http::Exchange& exchange, F&& function) const;

 private:
  friend class ProgramCompiler;
  std::span<Part> parts_;
  std::string_view source_;
};

// Value of one part.
Value evaluate_part(const Part& part, http::Exchange& exchange);

template <class F>
void Program::for_each(http::Exchange& exchange, F&& function) const {
  for (const Part& part : parts_) {
    function(evaluate_part(part, exchange).value_or(std::string_view()),
             part.kind == Part::Kind::kCapture);
  }
}

// Compiles text with variables; errors are recorded at word. The names are resolved when the whole
// configuration has been compiled: a Program is not to be evaluated before. text need not outlive
// the call.
bool compile_program(const conf::Setting& setting, std::size_t word, std::string_view text,
                     Program& out);
// For a word that stands in a raw block's line and not in setting itself.
bool compile_program(conf::Compiler& compiler, const conf::Word& word, std::string_view text,
                     Program& out);
inline bool read_program(const conf::Setting& s, std::size_t word, Program& out) {
  return compile_program(s, word, s.word(word), out);
}
template <auto Field>
bool set_program(const conf::Setting& s) {
  return read_program(s, 0, conf::detail::field<Field>(s));
}
// True if compile_program would find a variable in it.
bool has_variables(std::string_view text);
// Before compile(): makes the registry (as object of the configuration) and adds the tables.
void prepare(conf::Compiler& compiler, std::span<const std::span<const Variable>> tables);

struct Settings {
  bool uninitialized_variable_warn = true;
};
// The module whose finish() resolves all programs; it must come before modules whose own finish()
// evaluates any. Its rows: map, uninitialized_variable_warn.
const conf::Module& expr_module();

}  // namespace corehttpd::expr
