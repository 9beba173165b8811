#include "server/import/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "conf/lexer.h"
#include "corehttpd/base/arena.h"
#include "corehttpd/conf/diagnostics.h"

namespace corehttpd::server::importer {
namespace {

using conf::Ending;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Where the raw text of a word that starts at begin ends; the lexer has accepted it.
std::size_t word_end(std::string_view text, std::size_t begin, bool quoted) {
  std::size_t i = begin;
  if (quoted) {
    const char quote = text[i++];
    while (i < text.size() && text[i] != quote) i += text[i] == '\\' ? 2 : 1;
    return std::min(i + 1, text.size());
  }
  bool variable = false;
  while (i < text.size()) {
    const char c = text[i];
    if (is_blank(c) || c == ';' || (c == '{' && !variable)) return i;
    variable = c == '$' || (c == '{' && variable);
    i += c == '\\' ? 2 : 1;
  }
  return std::min(i, text.size());
}

// "[[", "[==[" at i: how many '='; -1: no long bracket.
int long_bracket(std::string_view text, std::size_t i) {
  if (i >= text.size() || text[i] != '[') return -1;
  std::size_t j = i + 1;
  while (j < text.size() && text[j] == '=') ++j;
  return j < text.size() && text[j] == '[' ? static_cast<int>(j - i - 1) : -1;
}

std::size_t skip_long_bracket(std::string_view text, std::size_t i, int level) {
  const std::string close = "]" + std::string(static_cast<std::size_t>(level), '=') + "]";
  const std::size_t found = text.find(close, i);
  return found == std::string_view::npos ? text.size() : found + close.size();
}

std::size_t skip_lua_comment(std::string_view text, std::size_t i) {
  if (const int level = long_bracket(text, i + 2); level >= 0)
    return skip_long_bracket(text, i + 2, level);
  const std::size_t end = text.find('\n', i);
  return end == std::string_view::npos ? text.size() : end;
}

// Turns the lexer's statements into a tree with offsets. The text is a copy that it may change:
// programs in it are blanked out before the lexer, which never looks ahead, gets to them.
class Parser {
 public:
  Parser(const std::string& file, std::string text)
      : file_(file),
        text_(std::move(text)),
        arena_(16 * 1024),
        lexer_(file_, text_, false, arena_, diagnostics_) {
    lines_.push_back(0);
    for (std::size_t i = 0; i < text_.size(); ++i)
      if (text_[i] == '\n') lines_.push_back(i + 1);
  }

  bool run(std::vector<Statement>& out) { return block(out, nullptr, 0); }

  std::string error() const {
    if (diagnostics_.all().empty()) return "the blocks are not balanced";
    const conf::Diagnostic& d = diagnostics_.all().front();
    return d.message + " in line " + std::to_string(d.line);
  }

 private:
  std::size_t offset(const conf::Position& at) const { return lines_[at.line - 1] + at.column - 1; }

  Statement make(const std::vector<conf::Word>& words) const {
    Statement made;
    for (const conf::Word& word : words) {
      const std::size_t begin = offset(word.at);
      made.words.push_back(
          {begin, word_end(text_, begin, word.quoted), std::string(word.text), word.quoted});
    }
    made.begin = made.words[0].begin;
    made.line = words[0].at.line;
    return made;
  }

  bool open(Statement& made, std::size_t depth) {
    made.is_block = true;
    made.body_begin = offset(lexer_.at()) + 1;
    if (made.name().ends_with("_by_lua_block")) {
      made.is_lua = true;
      const std::size_t end = lua_block_end(text_, made.body_begin);
      if (end == std::string_view::npos) return false;
      for (std::size_t i = made.body_begin; i + 1 < end; ++i)
        if (text_[i] != '\n') text_[i] = ' ';
    }
    return block(made.children, &made, depth + 1);
  }

  bool block(std::vector<Statement>& out, Statement* opener, std::size_t depth) {
    if (depth > conf::kNestingMax) return false;
    std::vector<conf::Word> words;
    for (;;) {
      const Ending ending = lexer_.next(words);
      if (diagnostics_.errors() > 0) return false;
      if (ending == Ending::kEnd) return opener == nullptr;
      const std::size_t at = offset(lexer_.at());
      if (ending == Ending::kClose) {
        if (opener == nullptr) return false;
        opener->body_end = at;
        opener->end = at + 1;
        return true;
      }
      Statement& made = out.emplace_back(make(words));
      made.end = at + 1;
      if (ending == Ending::kOpen && !open(made, depth)) return false;
    }
  }

  const std::string& file_;
  std::string text_;
  Arena arena_;
  conf::Diagnostics diagnostics_;
  conf::Lexer lexer_;
  std::vector<std::size_t> lines_;
};

const Statement* find_in(const std::vector<Statement>& list, std::size_t offset) {
  for (const Statement& statement : list) {
    if (offset < statement.begin || offset >= statement.end) continue;
    if (statement.is_block && offset >= statement.body_begin) {
      if (const Statement* inner = find_in(statement.children, offset)) return inner;
    }
    return &statement;
  }
  return nullptr;
}

}  // namespace

std::size_t lua_block_end(std::string_view text, std::size_t offset) {
  int depth = 1;
  std::size_t i = offset;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = word_end(text, i, true);
    } else if (c == '-' && text.substr(i).starts_with("--")) {
      i = skip_lua_comment(text, i);
    } else if (const int level = long_bracket(text, i); level >= 0) {
      i = skip_long_bracket(text, i, level);
    } else {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      ++i;
      if (depth == 0) return i;
    }
  }
  return std::string_view::npos;
}

bool read_whole(const std::string& path, std::size_t most, std::string& out) {
  // Never waits for the other end of a pipe.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  struct stat status = {};
  int error = ::fstat(fd, &status) != 0  ? errno
              : S_ISDIR(status.st_mode)  ? EISDIR
              : !S_ISREG(status.st_mode) ? EINVAL
                                         : 0;
  char buffer[64 * 1024];
  while (error == 0) {
    const ssize_t count = ::read(fd, buffer, sizeof(buffer));
    if (count == 0) break;
    if (count < 0) {
      if (errno != EINTR) error = errno;
      continue;
    }
    if (out.size() + static_cast<std::size_t>(count) > most) {
      error = EFBIG;
    } else {
      out.append(buffer, static_cast<std::size_t>(count));
    }
  }
  ::close(fd);
  errno = error;
  return error == 0;
}

SourceFile::SourceFile(std::string path, std::string shown)
    : path_(std::move(path)), shown_(std::move(shown)) {
  read();
  if (state_ == State::kRead) parse();
}

void SourceFile::read() {
  if (!read_whole(path_, conf::kFileBytesMax, text_)) {
    state_ = errno == EFBIG ? State::kHuge : State::kUnreadable;
    error_ = std::strerror(errno);
    return;
  }
  if (text_.find('\0') != std::string::npos) {
    state_ = State::kBinary;
    error_ = "it is not a text file";
    return;
  }
  byte_order_mark_ = text_.starts_with("\xef\xbb\xbf");
  if (byte_order_mark_) text_.erase(0, 3);
}

void SourceFile::parse() {
  Parser parser(path_, text_);
  if (parser.run(statements_)) return;
  state_ = State::kBroken;
  error_ = parser.error();
  statements_.clear();
}

const Statement* SourceFile::statement_at(std::size_t offset) const {
  return find_in(statements_, offset);
}

}  // namespace corehttpd::server::importer
