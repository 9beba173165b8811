// Reading a directive's text that may hold variables.
#pragma once

#include "corehttpd/handlers/files.h"

namespace corehttpd::handlers {

// text: word `word` of the setting or a part of it. False with the error recorded.
bool read_text(const conf::Setting& s, std::size_t word, std::string_view text, Text& out);

}  // namespace corehttpd::handlers
