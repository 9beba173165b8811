// What checking a configuration has to say: all errors, not the first, each with file:line:column,
// the line and a caret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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
  bool degrades = false;    // A warning of what a site has to go without (conf/sites.h).
};

class Diagnostics {
 public:
  // Kept at most, of each of errors and the rest; further ones are only counted.
  static constexpr std::size_t kKeptMax = 2000;

  void add(Diagnostic diagnostic);
  // With the text of the line taken from the remembered source. width: columns to underline, cut at
  // the line's end. degrades: see Diagnostic.
  void add(Severity severity, const Position& at, std::string message, std::string help = {},
           std::size_t width = 1, bool degrades = false);
  std::size_t errors() const { return errors_; }
  std::size_t warnings() const { return warnings_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  // The text of a file, so that lines can be shown. Kept by the reader of files.
  void remember_source(std::string_view file, std::string_view text);
  // In the order of reading: by file, as they were remembered, then by line and column; those
  // without a place first. compile() does it, since blocks are compiled after the simple directives
  // that stand around them.
  void sort();
  // Without a newline at its end:
  //   corehttpd: [emerg] unknown directive "foo" in /etc/x.conf:3:5
  //       foo on;
  //       ^~~
  //     help: did you mean "root"?
  // [emerg], [warn] or [notice], as nginx has them. Long lines are cut around the place.
  std::string format(const Diagnostic& diagnostic) const;
  // All of them, each ended by a newline; empty when there is nothing to say.
  std::string format_all() const;
  // How many messages were counted but not kept.
  std::size_t dropped() const { return errors_ + others_ - all_.size(); }
  // One JSON array of objects: severity ("error", "warning", "notice"), file, line, column, width,
  // message, hint (the help), text (of the line). Bytes that are not UTF-8 become U+FFFD.
  std::string format_json() const;

 private:
  std::vector<Diagnostic> all_;
  std::vector<std::string> sources_;                           // In the order of reading.
  std::unordered_map<std::string, std::size_t> source_index_;  // File to its place there.
  std::size_t errors_ = 0;
  std::size_t warnings_ = 0;
  std::size_t others_ = 0;  // Warnings and notices.
};

}  // namespace corehttpd::conf
