// One file of an nginx tree, as its owner wrote it: the text, and where in it each directive
// stands, so that edits touch what they must and leave every other byte alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace corehttpd::server::importer {

// A word: [begin, end) of the text, quotes included; value as the lexer resolves it.
struct Token {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string value;
  bool quoted = false;
};

struct Statement {
  std::vector<Token> words;  // words[0] is the name; never empty.
  std::size_t begin = 0;     // Of the name.
  std::size_t end = 0;       // Past the ';' or the '}'.
  bool is_block = false;
  bool is_lua = false;         // Its braces hold a program, which is not looked at.
  std::size_t body_begin = 0;  // Of a block: past its '{'.
  std::size_t body_end = 0;    // Of a block: at its '}'.
  std::uint32_t line = 0;      // From 1.
  std::vector<Statement> children;

  std::string_view name() const { return words[0].value; }
  // Word i after the name; empty when there are fewer.
  std::string_view word(std::size_t i) const {
    return i + 1 < words.size() ? std::string_view(words[i + 1].value) : std::string_view();
  }
};

class SourceFile {
 public:
  enum class State : std::uint8_t {
    kRead,
    kUnreadable,  // error() says why.
    kBinary,      // Holds a NUL byte.
    kHuge,        // Larger than a configuration file may be.
    kBroken,      // Its syntax is wrong; error() says where.
  };
  // path: canonical. shown: what reports call it. Reads and parses.
  SourceFile(std::string path, std::string shown);
  SourceFile(const SourceFile&) = delete;  // Others point to its statements.
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& shown() const { return shown_; }
  State state() const { return state_; }
  const std::string& error() const { return error_; }
  // Without the byte order mark, to which no position refers.
  const std::string& text() const { return text_; }
  bool has_byte_order_mark() const { return byte_order_mark_; }
  const std::vector<Statement>& statements() const { return statements_; }
  // The innermost statement around an offset; one in a block's head is the block. nullptr: none.
  const Statement* statement_at(std::size_t offset) const;

 private:
  void read();
  void parse();

  std::string path_;
  std::string shown_;
  State state_ = State::kRead;
  std::string error_;
  std::string text_;
  bool byte_order_mark_ = false;
  std::vector<Statement> statements_;
};

// The whole of a regular file; false with errno set. At most most bytes, else false with EFBIG.
bool read_whole(const std::string& path, std::size_t most, std::string& out);
// Past the '}' of the '{' that stands just before offset, read as Lua; npos if it is not closed.
std::size_t lua_block_end(std::string_view text, std::size_t offset);

}  // namespace corehttpd::server::importer
