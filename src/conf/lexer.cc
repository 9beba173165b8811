#include "conf/lexer.h"

#include <fmt/format.h>

namespace corehttpd::conf {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// A character as a message shows it: terminals must not get control bytes from a file.
std::string printable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
}

}  // namespace

Ending Lexer::next(std::vector<Word>& words) {
  words.clear();
  for (;;) {
    skip_blanks();
    at_ = here();
    if (done()) {
      if (words.empty()) return Ending::kEnd;
      unexpected_end({});
      return Ending::kBroken;
    }
    const char c = text_[next_];
    switch (c) {
      case ';':
      case '{':
        if (words.empty()) unexpected(at_, c, c == ';' ? stray_semicolon_help() : std::string());
        advance();
        if (c == '{') return Ending::kOpen;
        if (words.empty()) continue;  // A stray ';' hides nothing.
        return Ending::kSemicolon;
      case '}':
        if (!words.empty()) unexpected(at_, c);
        advance();
        return Ending::kClose;
      case '"':
      case '\'':
        if (!read_quoted(words)) return Ending::kBroken;
        check_after_quote(words.back().at);
        break;
      default:
        if (!read_word(words)) return Ending::kBroken;
    }
  }
}

void Lexer::advance() {
  if (text_[next_++] == '\n') {
    ++line_;
    line_start_ = next_;
  }
}

// A backslash and whatever it protects, which may be a quote, a blank or a newline.
void Lexer::advance_escaped() {
  advance();
  if (!done()) advance();
}

void Lexer::skip_blanks() {
  while (!done()) {
    const char c = text_[next_];
    if (c == '#') {
      while (!done() && text_[next_] != '\n') advance();
    } else if (is_blank(c)) {
      advance();
    } else {
      return;
    }
  }
}

bool Lexer::read_word(std::vector<Word>& words) {
  const Position at = here();
  const std::size_t start = next_;
  bool variable = false;  // The last character was '$': a brace now belongs to "${name}".
  while (!done()) {
    const char c = text_[next_];
    if (next_ - start > kWordBytesMax) return too_long(start, at, '\0');
    if (c == '{' && variable) {
      advance();
      continue;
    }
    variable = c == '$';
    if (c == '\\') {
      advance_escaped();
    } else if (is_blank(c) || c == ';' || c == '{') {
      words.push_back(make_word(start, next_, false, at));
      return true;
    } else {
      advance();
    }
  }
  at_ = here();
  unexpected_end({});
  return false;
}

bool Lexer::read_quoted(std::vector<Word>& words) {
  const Position at = here();
  const char quote = text_[next_];
  advance();
  const std::size_t start = next_;
  while (!done()) {
    const char c = text_[next_];
    if (next_ - start > kWordBytesMax) return too_long(start, at, quote);
    if (c == '\\') {
      advance_escaped();
    } else if (c == quote) {
      words.push_back(make_word(start, next_, true, at));
      advance();
      return true;
    } else {
      advance();
    }
  }
  at_ = here();
  unexpected_end(fmt::format("the quote {} opened at {}:{}:{} is not closed", quote, file_, at.line,
                             at.column));
  return false;
}

// nginx wants a blank or a terminator behind a quoted word; ')' is for conditions: if ($a = "b").
void Lexer::check_after_quote(const Position& opened) {
  if (done()) return;
  const char c = text_[next_];
  // A '}' is reported by next(), since words stand before it.
  if (!is_blank(c) && c != ';' && c != '{' && c != '}' && c != ')') {
    // What follows a quote that spans lines is most often a word that another quote cut in two.
    unexpected(here(), c,
               opened.line == line_ ? std::string()
                                    : fmt::format("the quoted word before it began at {}:{}:{}: is "
                                                  "its closing quote missing there?",
                                                  file_, opened.line, opened.column));
  }
}

Word Lexer::make_word(std::size_t start, std::size_t end, bool quoted, const Position& at) {
  const std::string_view raw = text_.substr(start, end - start);
  if (raw.find('\\') == std::string_view::npos) return {arena_.copy(raw), quoted, at};
  char* const out = static_cast<char*>(arena_.allocate(raw.size() + 1, 1));
  std::size_t length = 0;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const char following = raw[i] == '\\' && i + 1 < raw.size() ? raw[i + 1] : '\0';
    switch (following) {
      case '"':
      case '\'':
      case '\\':
        out[length++] = raw[++i];
        break;
      case 't':
        out[length++] = '\t', ++i;
        break;
      case 'r':
        out[length++] = '\r', ++i;
        break;
      case 'n':
        out[length++] = '\n', ++i;
        break;
      default:
        out[length++] = raw[i];  // Other backslashes stay: regular expressions need them.
    }
  }
  out[length] = '\0';
  return {{out, length}, quoted, at};
}

// "location / { };": C's habit.
std::string Lexer::stray_semicolon_help() const {
  const std::size_t before = text_.substr(0, next_).find_last_not_of(" \t\r\n");
  const bool behind_block = before != std::string_view::npos && text_[before] == '}';
  return behind_block ? "a block ends with its \"}\" alone" : "";
}

void Lexer::unexpected(const Position& at, char c, std::string help) {
  diagnostics_.add(Severity::kError, at, fmt::format("unexpected \"{}\"", printable(c)),
                   std::move(help));
}

void Lexer::unexpected_end(std::string help) {
  const char* message = command_line_ ? "unexpected end of parameter, expecting \";\""
                                      : "unexpected end of file, expecting \";\" or \"}\"";
  diagnostics_.add(Severity::kError, at_, message, std::move(help));
}

bool Lexer::too_long(std::size_t start, const Position& at, char quote) {
  std::string message;
  if (quote == '\0') {
    message = "too long parameter \"";
    for (char c : text_.substr(start, 10)) message += printable(c);
    message += "...\" started";
  } else {
    message =
        fmt::format("too long parameter, probably missing terminating \"{}\" character", quote);
  }
  diagnostics_.add(Severity::kError, at, std::move(message),
                   fmt::format("a word may have up to {} bytes", kWordBytesMax));
  return false;
}

}  // namespace corehttpd::conf
