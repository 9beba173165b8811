// PCRE2 patterns with JIT, compiled with the configuration. The only user of PCRE2.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/conf/directive.h"

struct pcre2_real_code_8;

namespace corehttpd::http {
class Exchange;
}

namespace corehttpd::expr {

class Regex {
 public:
  // In the configuration's arena; nullptr with the error recorded at word, in nginx's words
  // (pcre2_compile() failed: … in "…"). Named groups become user variables.
  static const Regex* compile(const conf::Setting& setting, std::size_t word,
                              std::string_view pattern, bool ignore_case);
  static const Regex* compile(conf::Compiler& compiler, const conf::Word& word,
                              std::string_view pattern, bool ignore_case);
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  ~Regex();
  // Matches; on success sets the exchange's captures and the slots of named groups. subject must
  // live in the exchange's arena or longer. A match that exceeds the match limit counts as none and
  // is logged.
  bool match(http::Exchange& exchange, std::string_view subject) const;
  // Only asks; sets nothing.
  bool test(std::string_view subject) const;
  std::uint32_t capture_count() const { return captures_; }
  std::string_view pattern() const { return pattern_; }

 private:
  friend class corehttpd::Arena;
  struct Named {
    std::uint32_t group;
    std::uint32_t slot;
  };
  Regex(pcre2_real_code_8* code, std::string_view pattern) : code_(code), pattern_(pattern) {}
  bool name_groups(conf::Compiler& compiler, const conf::Word& word);

  pcre2_real_code_8* code_;
  std::string_view pattern_;
  std::span<const Named> named_;
  std::uint32_t captures_ = 0;
};

}  // namespace corehttpd::expr
