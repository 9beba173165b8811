// Where braces that do not balance went wrong, judged by indentation.
#pragma once

#include <string>
#include <string_view>

namespace corehttpd::conf {

// A help line for the first block whose '}' does not stand below the line that opened it; empty:
// indentation tells nothing.
std::string brace_hint(std::string_view path, std::string_view text);

}  // namespace corehttpd::conf
