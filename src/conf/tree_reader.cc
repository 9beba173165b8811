#include "conf/tree_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/brace_hint.h"
#include "conf/foreign.h"
#include "corehttpd/base/text.h"

namespace corehttpd::conf {
namespace {

// What a caret line underlines of a word, its quotes included.
std::size_t shown_width(const Word& word) { return word.text.size() + (word.quoted ? 2 : 0); }

// What is left of a regular expression whose braces cut it in two: "2}/" of "^/a{2}/".
bool looks_like_cut_regex(std::string_view name) {
  const std::size_t brace = name.find('}');
  if (brace == std::string_view::npos || brace == 0) return false;
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(brace),
                     [](char c) { return text::is_digit(c) || c == ','; });
}

// Windows editors put a byte order mark at the start.
std::string_view without_bom(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

}  // namespace

void TreeReader::read_command_line(std::string_view text) {
  parse_file("command line", arena_.copy(text), false, true, nodes_);
}

void TreeReader::read_text(std::string_view text) {
  const std::string_view path = options_.path.empty() ? "text" : arena_.copy(options_.path);
  files_.push_back({path, std::string(text)});
  stack_.push_back({path, 0, 0});
  parse_file(path, text, false, false, nodes_);
  stack_.pop_back();
}

std::span<const Node> TreeReader::read_snippet(std::string_view name, std::string_view text) {
  Nodes nodes;
  Lexer lexer(arena_.copy(name), text, false, arena_, diagnostics_);
  parse_block(lexer, nullptr, false, nodes);
  return keep(nodes);
}

bool TreeReader::parse_file(std::string_view path, std::string_view text, bool raw,
                            bool command_line, Nodes& out) {
  text = without_bom(text);
  diagnostics_.remember_source(path, text);
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    // Words are handed to system calls: a NUL would cut a path short unseen.
    const std::string_view before = text.substr(0, nul);
    const auto line =
        static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n') + 1);
    const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0.
    error({path, line, static_cast<std::uint32_t>(nul - start + 1)}, "unexpected NUL byte",
          "is this a text file?");
    return break_off();
  }
  Lexer lexer(path, text, command_line, arena_, diagnostics_);
  const std::string_view outer = std::exchange(text_, text);
  const bool fine = parse_block(lexer, nullptr, raw, out);
  text_ = outer;
  return fine;
}

bool TreeReader::parse_block(Lexer& lexer, const Word* opener, bool raw, Nodes& out) {
  std::vector<Word> words;
  for (;;) {
    switch (lexer.next(words)) {
      case Ending::kSemicolon:
        add_statement(words, raw, out);
        break;
      case Ending::kOpen:
        if (!check_open(lexer, words, raw)) return break_off();
        ++depth_;
        if (!parse_child_block(lexer, words, out)) return false;
        --depth_;
        break;
      case Ending::kClose:
        if (!words.empty()) add_statement(words, raw, out);
        if (opener != nullptr) return true;
        if (words.empty()) {
          error(lexer.at(), "unexpected \"}\"",
                diagnostics_.errors() > 0 ? std::string() : brace_hint(lexer.at().file, text_));
        }
        broken_ =
            true;  // What follows may have been meant for another block: only its syntax counts.
        break;
      case Ending::kEnd:
        if (opener == nullptr) return true;
        error(lexer.at(), "unexpected end of file, expecting \"}\"", unclosed(*opener));
        return break_off();
      case Ending::kBroken:
        return break_off();
    }
  }
}

// Whether a block may be opened here at all.
bool TreeReader::check_open(const Lexer& lexer, std::span<const Word> words, bool raw) {
  if (lexer.command_line()) {
    error(lexer.at(), "block directives are not supported in -g option");
    return false;
  }
  if (raw && !words.empty()) {
    error(lexer.at(), "unexpected \"{\"", "a word with braces has to be quoted");
    return false;
  }
  if (!words.empty() && (is_cut_regex(words[0]) || is_foreign(words))) return false;
  if (depth_ >= kNestingMax) {
    error(lexer.at(), "too deeply nested block", fmt::format("{} levels at most", kNestingMax));
    return false;
  }
  return true;
}

// In "location ~ ^/a{2}/ {" the first brace opens the block. Braces are out of balance from there
// on, and the end of the file would be a poor place to say so.
bool TreeReader::is_cut_regex(const Word& name) {
  if (name.quoted || !looks_like_cut_regex(name.text)) return false;
  error(name.at, fmt::format("unknown directive \"{}\"", name.text),
        "a regular expression with braces has to be quoted", shown_width(name));
  return true;
}

// Apache's "%{HTTP_HOST}" opens a block too, and nothing behind it makes sense.
bool TreeReader::is_foreign(std::span<const Word> words) {
  for (const Word& word : words) {
    if (word.quoted) continue;
    const std::string_view help = foreign_help(word.text);
    if (help.empty() || (&word != &words[0] && word.at.line == words[0].at.line)) continue;
    error(word.at, fmt::format("unknown directive \"{}\"", word.text), std::string(help),
          shown_width(word));
    return true;
  }
  return false;
}

std::string TreeReader::unclosed(const Word& opener) const {
  std::string hint = brace_hint(opener.at.file, text_);
  if (!hint.empty()) return hint;
  return fmt::format("the \"{}\" block opened at {}:{}:{} is not closed", opener.text,
                     opener.at.file, opener.at.line, opener.at.column);
}

bool TreeReader::parse_child_block(Lexer& lexer, std::span<const Word> words, Nodes& out) {
  static constexpr Word kNameless = {"{", false, {}};
  Nodes children;
  if (words.empty()) {
    // A lone '{' has been reported; its block is still read, so that braces stay in balance.
    Word nameless = kNameless;
    nameless.at = lexer.at();
    return parse_block(lexer, &nameless, false, children);
  }
  Node node = make_node(words);
  node.is_block = true;
  const bool lines = std::binary_search(raw_blocks_.begin(), raw_blocks_.end(), node.name.text);
  if (!parse_block(lexer, &node.name, lines, children)) return false;
  node.children = keep(children);
  if (node.name.text == "include") {
    error(node.name.at, "directive \"include\" is not terminated by \";\"", {},
          shown_width(node.name));
    return true;
  }
  append({&node, 1}, 1, node.name, out);
  return true;
}

void TreeReader::add_statement(std::span<const Word> words, bool raw, Nodes& out) {
  if (words[0].text == "include") return include(words, raw, out);
  const Node node = make_node(words);
  append({&node, 1}, 1, node.name, out);
}

Node TreeReader::make_node(std::span<const Word> words) {
  Node node;
  node.name = words[0];
  const std::span<Word> kept = arena_.make_array<Word>(words.size() - 1);
  std::copy(words.begin() + 1, words.end(), kept.begin());
  node.words = kept;
  return node;
}

std::span<const Node> TreeReader::keep(const Nodes& nodes) {
  const std::span<Node> kept = arena_.make_array<Node>(nodes.size());
  std::copy(nodes.begin(), nodes.end(), kept.begin());
  return kept;
}

// Files that include others several times multiply: the tree needs a bound of its own.
void TreeReader::append(std::span<const Node> nodes, std::size_t weight, const Word& at,
                        Nodes& out) {
  if (total_nodes_ + weight > kNodesMax) {
    if (total_nodes_ <= kNodesMax) error(at.at, "too many directives", {}, shown_width(at));
    total_nodes_ = kNodesMax + 1;
    broken_ = true;
    return;
  }
  total_nodes_ += weight;
  out.insert(out.end(), nodes.begin(), nodes.end());
}

void TreeReader::error(const Position& at, std::string message, std::string help,
                       std::size_t width) {
  diagnostics_.add(Severity::kError, at, std::move(message), std::move(help), width);
}

bool TreeReader::break_off() {
  broken_ = true;
  return false;
}

}  // namespace corehttpd::conf
