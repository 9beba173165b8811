// Cuts a configuration's text into statements: words up to ';', '{' or '}'. The grammar is nginx's,
// quirk by quirk, because operators' files rely on all of it: a quote only counts at the start of a
// word, '}' and '#' inside a word belong to it, a '{' after '$' does too, and a backslash is
// dropped only before a quote or another backslash.
#pragma once

#include <string_view>
#include <vector>

#include "corehttpd/base/arena.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

// What ended a statement.
enum class Ending : std::uint8_t {
  kSemicolon,
  kOpen,    // '{'; words may be empty, which has been reported.
  kClose,   // '}'; words that stood unfinished before it have been reported.
  kEnd,     // The end of the text, between statements.
  kBroken,  // Reported; nothing that follows can be trusted.
};

class Lexer {
 public:
  // file and text outlive the lexer; words are copied to the arena. file itself must live as long
  // as the arena. command_line: the text of -g, whose end is named differently.
  Lexer(std::string_view file, std::string_view text, bool command_line, Arena& arena,
        Diagnostics& diagnostics)
      : file_(file),
        text_(text),
        command_line_(command_line),
        arena_(arena),
        diagnostics_(diagnostics) {}

  // Reads one statement; words is emptied first.
  Ending next(std::vector<Word>& words);
  // The place of the character that ended the last statement.
  Position at() const { return at_; }
  bool command_line() const { return command_line_; }

 private:
  bool done() const { return next_ == text_.size(); }
  Position here() const {
    return {file_, line_, static_cast<std::uint32_t>(next_ - line_start_ + 1)};
  }
  void advance();
  void advance_escaped();
  void skip_blanks();
  bool read_word(std::vector<Word>& words);
  bool read_quoted(std::vector<Word>& words);
  void check_after_quote(const Position& opened);
  Word make_word(std::size_t start, std::size_t end, bool quoted, const Position& at);
  std::string stray_semicolon_help() const;
  void unexpected(const Position& at, char c, std::string help = {});
  void unexpected_end(std::string help);
  bool too_long(std::size_t start, const Position& at, char quote);

  std::string_view file_;
  std::string_view text_;
  bool command_line_;
  Arena& arena_;
  Diagnostics& diagnostics_;
  std::size_t next_ = 0;        // The first character not consumed.
  std::size_t line_start_ = 0;  // Where its line starts.
  std::uint32_t line_ = 1;
  Position at_;
};

}  // namespace corehttpd::conf
