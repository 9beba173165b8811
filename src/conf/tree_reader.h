// Reads the configuration file, -g and every include into one syntax tree. Included directives are
// spliced in where the include stands, so that nobody later needs to know about files.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "conf/lexer.h"
#include "corehttpd/base/arena.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

class TreeReader {
 public:
  // The tree is made in arena. raw_blocks: names of the blocks whose lines cannot be blocks
  // themselves (types, map, geo), sorted: a stray '{' in one is then reported where it stands.
  TreeReader(const Options& options, std::span<const std::string_view> raw_blocks, Arena& arena,
             Diagnostics& diagnostics)
      : options_(options), raw_blocks_(raw_blocks), arena_(arena), diagnostics_(diagnostics) {}

  // The text of -g.
  void read_command_line(std::string_view text);
  // options.path.
  void read_main();
  // As if options.path had this text.
  void read_text(std::string_view text);
  // A piece of configuration that is not the operator's, such as a default; not dumped.
  std::span<const Node> read_snippet(std::string_view name, std::string_view text);

  std::span<const Node> nodes() const { return nodes_; }
  // The tree has holes or unbalanced blocks: compiling it would report what is not so.
  bool broken() const { return broken_; }
  struct File {
    std::string_view path;
    std::string text;
  };
  // In the order of reading, each once.
  const std::vector<File>& files() const { return files_; }

 private:
  struct Open {  // A file being read, for the detection of cycles.
    std::string_view path;
    dev_t device;
    ino_t inode;
  };
  struct Parsed {
    std::span<const Node> nodes;
    std::size_t weight;
  };
  using Nodes = std::vector<Node>;

  bool parse_file(std::string_view path, std::string_view text, bool raw, bool command_line,
                  Nodes& out);
  // opener: name of the block whose '{' has been read, nullptr at a file's top level.
  bool parse_block(Lexer& lexer, const Word* opener, bool raw, Nodes& out);
  bool parse_child_block(Lexer& lexer, std::span<const Word> words, Nodes& out);
  bool check_open(const Lexer& lexer, std::span<const Word> words, bool raw);
  bool is_cut_regex(const Word& name);
  bool is_foreign(std::span<const Word> words);
  std::string unclosed(const Word& opener) const;
  void add_statement(std::span<const Word> words, bool raw, Nodes& out);
  Node make_node(std::span<const Word> words);
  std::span<const Node> keep(const Nodes& nodes);

  void include(std::span<const Word> words, bool raw, Nodes& out);
  void include_glob(std::string_view pattern, const Word& word, bool raw, Nodes& out);
  void include_file(std::string_view path, const Word& word, bool raw, Nodes& out);
  bool check_cycle(const Open& file, const Word& word);
  // Opens path, or the file that stands in for it. A negative number is an errno value.
  int open_include(std::string_view& path, const Word& word);
  bool load(int fd, std::string_view path, const Position& at, std::string& text);
  // weight: how many directives this adds to the tree, those in blocks included.
  void append(std::span<const Node> nodes, std::size_t weight, const Word& at, Nodes& out);
  void error(const Position& at, std::string message, std::string help = {}, std::size_t width = 1);
  bool break_off();

  const Options& options_;
  std::span<const std::string_view> raw_blocks_;
  Arena& arena_;
  Diagnostics& diagnostics_;
  Nodes nodes_;
  std::vector<File> files_;
  std::vector<Open> stack_;
  // A file included by a thousand sites is parsed once. The key ends in 'r' for a raw block's
  // lines.
  std::unordered_map<std::string, Parsed> parsed_;
  std::size_t total_nodes_ = 0;
  std::string_view text_;  // Of the file being read.
  std::size_t depth_ = 0;  // Blocks open now, over all files of the stack.
  bool broken_ = false;
};

}  // namespace corehttpd::conf
