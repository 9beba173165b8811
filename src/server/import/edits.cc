#include "server/import/edits.h"

#include <algorithm>
#include <utility>

namespace corehttpd::server::importer {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::size_t line_start(std::string_view text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return before == std::string_view::npos ? 0 : before + 1;
}

std::size_t line_end(std::string_view text, std::size_t at) {
  return std::min(text.find('\n', at), text.size());
}

// The blanks that the line of at starts with.
std::string_view indent_of(std::string_view text, std::size_t at) {
  const std::size_t start = line_start(text, at);
  const std::size_t first = std::min(text.find_first_not_of(" \t", start), text.size());
  return text.substr(start, first - start);
}

bool blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

}  // namespace

void Edits::replace(std::size_t begin, std::size_t end, std::string with) {
  // At one place insertions come before what takes away, which would swallow them.
  const auto key = [](std::size_t from, std::size_t to) { return std::pair(from, to > from); };
  const auto place = std::upper_bound(edits_.begin(), edits_.end(), key(begin, end),
                                      [&](const std::pair<std::size_t, bool>& value,
                                          const Edit& e) { return value < key(e.begin, e.end); });
  edits_.insert(place, {begin, end, std::move(with)});
}

void Edits::comment_out(std::string_view text, std::size_t begin, std::size_t end,
                        std::string_view note) {
  const std::string indent(indent_of(text, begin));
  const std::size_t start = line_start(text, begin);
  std::string out;
  std::size_t from = begin;
  if (blank(text.substr(start, begin - start))) {
    from = start;
  } else {
    // The blanks before it would end a line now.
    while (kBlanks.find(text[from - 1]) != std::string_view::npos) --from;
    out += "\n";
  }
  out.append(indent).append("# ").append(note).append("\n");
  // Every line keeps its text and its indentation behind the mark.
  for (std::size_t at = begin; at < end;) {
    const std::size_t stop = std::min(text.find('\n', at), end);
    std::string_view line = text.substr(at, stop - at);
    out.append(indent).append("# ");
    if (at != begin && line.starts_with(indent)) line.remove_prefix(indent.size());
    out.append(line);
    at = stop + 1;
    if (at < end) out += "\n";
  }
  const std::string_view rest = text.substr(end, line_end(text, end) - end);
  const std::size_t first = rest.find_first_not_of(kBlanks);
  if (first != std::string_view::npos && rest[first] != '#') out += "\n";
  replace(from, end, std::move(out));
}

void Edits::append_to_block(std::string_view text, std::size_t block_begin, std::size_t brace,
                            std::string_view line) {
  const std::size_t start = line_start(text, brace);
  const std::string indent = std::string(indent_of(text, block_begin)) + "    ";
  if (blank(text.substr(start, brace - start)) && start > block_begin) {
    return replace(start, start, indent + std::string(line) + "\n");
  }
  replace(brace, brace,
          "\n" + indent + std::string(line) + "\n" + std::string(indent_of(text, block_begin)));
}

void Edits::prepend_to_block(std::string_view text, std::size_t block_begin, std::size_t body_begin,
                             std::string_view line) {
  const std::string indent = std::string(indent_of(text, block_begin)) + "    ";
  std::string out = "\n" + indent + std::string(line);
  const std::string_view rest = text.substr(body_begin, line_end(text, body_begin) - body_begin);
  const std::size_t first = rest.find_first_not_of(kBlanks);
  // "{  # comment" and "{" end their line; anything else goes on below the new one.
  if (first != std::string_view::npos && rest[first] != '#') {
    out.append("\n").append(indent);
    return replace(body_begin, body_begin, std::move(out));
  }
  const std::size_t at = body_begin + rest.size() - (rest.ends_with('\r') ? 1 : 0);
  replace(at, at, std::move(out));
}

std::string Edits::apply(std::string_view text) const {
  std::string out;
  std::size_t at = 0;
  for (const Edit& edit : edits_) {
    if (edit.begin < at) continue;  // Within what an earlier one took away.
    out.append(text.substr(at, edit.begin - at)).append(edit.with);
    at = edit.end;
  }
  return out.append(text.substr(at));
}

std::size_t Edits::original_offset(std::size_t applied) const {
  std::size_t at = 0;       // In the original…
  std::size_t written = 0;  // …and in what apply() made of it.
  for (const Edit& edit : edits_) {
    if (edit.begin < at) continue;
    const std::size_t plain = edit.begin - at;
    if (applied < written + plain) break;
    written += plain;
    at = edit.begin;
    if (applied < written + edit.with.size()) return edit.begin;
    written += edit.with.size();
    at = edit.end;
  }
  return at + (applied - written);
}

}  // namespace corehttpd::server::importer
