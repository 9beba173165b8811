// PCRE2 patterns with JIT, compiled with the configuration. The only user of PCRE2.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/conf/directive.h"

namespace corehttpd::http { class Exchange; }

namespace corehttpd::expr {

class Regex {
 public:
  // In the configuration's arena; nullptr with the error recorded at word: nginx's words (pcre2_compile() failed: … in "…").
  static const Regex* compile(const conf::Setting& setting, std::size_t word, std::string_view pattern, bool ignore_case);
  // Matches; on success sets the exchange's captures and the slots of named groups. subject must live in the exchange's arena or longer.
  // A match that exceeds the match limit counts as none and is logged.
  bool match(http::Exchange& exchange, std::string_view subject) const;
  // Only asks; sets nothing.
  bool test(std::string_view subject) const;
  std::uint32_t capture_count() const;
  std::string_view pattern() const;
};

}  // namespace corehttpd::expr
