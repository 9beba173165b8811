#include "conf/brace_hint.h"

#include <fmt/format.h>

#include <vector>

#include "conf/lexer.h"
#include "corehttpd/base/arena.h"
#include "corehttpd/conf/diagnostics.h"

namespace corehttpd::conf {
namespace {

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.push_back(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

struct Opened {
  std::string_view name;
  Position at;
};

}  // namespace

std::string brace_hint(std::string_view path, std::string_view text) {
  Arena arena(16 * 1024);
  Diagnostics ignored;
  Lexer lexer(path, text, false, arena, ignored);
  const auto lines = split_lines(text);
  // What stands before a place in its line, if that is blank: its indentation.
  const auto indent = [&](const Position& at) -> std::string_view {
    if (at.line == 0 || at.line > lines.size()) return "x";
    const std::string_view before = lines[at.line - 1].substr(0, at.column - 1);
    return before.find_first_not_of(" \t") == std::string_view::npos ? before : "x";
  };
  std::vector<Opened> open;
  std::vector<Word> words;
  for (;;) {
    const Ending ending = lexer.next(words);
    if (ending == Ending::kEnd || ending == Ending::kBroken) return {};
    if (ending == Ending::kOpen) {
      open.push_back(words.empty() ? Opened{"{", lexer.at()} : Opened{words[0].text, words[0].at});
    }
    if (ending != Ending::kClose || open.empty()) continue;
    const Opened opened = open.back();
    open.pop_back();
    const std::string_view begin = indent(opened.at);
    const std::string_view end = indent(lexer.at());
    if (begin == "x" || end == "x" || begin == end || opened.at.line == lexer.at().line) continue;
    return fmt::format(
        "the \"{}\" block opened at {}:{}:{} ends at {}:{}:{}, which does not stand below it: is a "
        "brace {} there?",
        opened.name, path, opened.at.line, opened.at.column, path, lexer.at().line,
        lexer.at().column, end.size() < begin.size() ? "missing" : "too many");
  }
}

}  // namespace corehttpd::conf
