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
  enum class Kind : std::uint8_t { kLiteral, kVariable, kSlot, kCompute, kCapture } kind = Kind::kLiteral;
  std::uint32_t number = 0;          // Slot or capture.
  std::string_view text;             // Literal; suffix of a family; name until resolved.
  Getter get = nullptr;
  Registry::Compute compute = nullptr;
  const void* context = nullptr;
};

// Lives in the configuration. A Program that is all literal evaluates to its text without a copy.
class Program {
 public:
  Program() = default;
  bool empty() const { return parts_.empty(); }
  bool is_literal() const { return parts_.empty() || (parts_.size() == 1 && parts_[0].kind == Part::Kind::kLiteral); }
  std::string_view source() const { return source_; }
  std::span<const Part> parts() const { return parts_; }
  // The string, in the exchange's arena (or the literal itself). Unset variables are "".
  std::string_view evaluate(http::Exchange& exchange) const;

 private:
  friend class ProgramCompiler;
  std::span<Part> parts_;
  std::string_view source_;
};

// Value of one part.
Value evaluate_part(const Part& part, http::Exchange& exchange);

// Compiles text with variables; errors are recorded at word. The names are resolved when the whole configuration has been compiled.
bool compile_program(const conf::Setting& setting, std::size_t word, std::string_view text, Program& out);
inline bool read_program(const conf::Setting& s, std::size_t word, Program& out) { return compile_program(s, word, s.word(word), out); }
template <auto Field> bool set_program(const conf::Setting& s) { return read_program(s, 0, conf::detail::field<Field>(s)); }
// Before compile(): makes the registry (as object of the configuration) and adds the tables.
void prepare(conf::Compiler& compiler, std::span<const std::span<const Variable>> tables);
// The module whose finish() resolves all programs. Its rows: set, map, … (see src/expr).
const conf::Module& expr_module();

}  // namespace corehttpd::expr
