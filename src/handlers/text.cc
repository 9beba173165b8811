#include "handlers/text.h"

namespace corehttpd::handlers {

bool read_text(const conf::Setting& s, std::size_t word, std::string_view text, Text& out) {
  out = Text{};
  out.literal = s.arena().copy(text);
  out.has_variables = text.find('$') != std::string_view::npos;
  if (!out.has_variables) return true;
  return expr::compile_program(s, word, out.literal, out.program);
}

}  // namespace corehttpd::handlers
