// What checking a configuration has to say: all errors, not the first, each with file:line:column,
// the line and a caret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

enum class Severity : std::uint8_t { kNotice, kWarning, kError };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;
  std::uint32_t line = 0;  // 0: no place.
  std::uint32_t column = 0;
  std::string message;      // In nginx's words where it has them: unknown directive "foo".
  std::string help;         // What is allowed instead; may be empty.
  std::string source_line;  // The text of that line, for the caret.
  std::uint32_t width = 1;  // Columns underlined.
};

class Diagnostics {
 public:
  void add(Diagnostic diagnostic);
  void add(Severity severity, const Position& at, std::string message, std::string help = {},
           std::size_t width = 1);
  std::size_t errors() const { return errors_; }
  std::size_t warnings() const { return warnings_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  // The text of a file, so that lines can be shown. Kept by the reader of files.
  void remember_source(std::string_view file, std::string_view text);
  // "corehttpd: [emerg] unknown directive "foo" in /etc/x.conf:3:5" followed by the line, the caret
  // and the help.
  std::string format(const Diagnostic& diagnostic) const;
  std::string format_all() const;

 private:
  std::vector<Diagnostic> all_;
  std::vector<std::pair<std::string, std::string>> sources_;
  std::size_t errors_ = 0;
  std::size_t warnings_ = 0;
};

}  // namespace corehttpd::conf
