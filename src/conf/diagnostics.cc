#include "corehttpd/conf/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "corehttpd/base/json.h"

namespace corehttpd::conf {
namespace {

constexpr std::size_t kShownColumns = 160;  // Of a source line; minified files have huge ones.
constexpr std::size_t kShownBefore = 60;    // Columns left of the place when a line is cut.

// The text of a line (from 1) without its end.
std::string_view line_of(std::string_view text, std::uint32_t line) {
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

constexpr bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

const char* level_name(Severity severity) {
  switch (severity) {
    case Severity::kNotice:
      return "notice";
    case Severity::kWarning:
      return "warn";
    case Severity::kError:
      return "emerg";
  }
  return "emerg";
}

const char* json_name(Severity severity) {
  switch (severity) {
    case Severity::kNotice:
      return "notice";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "error";
}

// The line and, below it, the caret. Columns count bytes, but a terminal shows characters: tabs are
// kept in the padding and the continuation bytes of UTF-8 take no room.
void append_caret(std::string& out, const Diagnostic& d) {
  std::string_view line = d.source_line;
  std::size_t at = std::min<std::size_t>(d.column - 1, line.size());
  std::size_t width = std::min<std::size_t>(d.width, line.size() - at);
  std::string_view before;
  std::string_view after;
  if (line.size() > kShownColumns) {
    const std::size_t cut = at > kShownBefore ? at - kShownBefore : 0;
    before = cut > 0 ? "..." : "";
    after = line.size() - cut > kShownColumns ? "..." : "";
    line = line.substr(cut, kShownColumns);
    at -= cut;
    width = std::min(width, line.size() - at);
  }
  out.append("\n").append(before);
  for (char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
  }
  out.append(after).append("\n").append(before.size(), ' ');
  for (char c : line.substr(0, at)) {
    if (!continues_character(c)) out += c == '\t' ? '\t' : ' ';
  }
  out += '^';
  for (char c : line.substr(at, width).substr(width > 0 ? 1 : 0)) {
    if (!continues_character(c)) out += '~';
  }
}

}  // namespace

void Diagnostics::add(Diagnostic diagnostic) {
  std::size_t& count = diagnostic.severity == Severity::kError ? errors_ : others_;
  ++count;
  if (diagnostic.severity == Severity::kWarning) ++warnings_;
  if (count > kKeptMax) return;
  // A terminal must not get control bytes from a file.
  for (char& c : diagnostic.message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  all_.push_back(std::move(diagnostic));
}

void Diagnostics::add(Severity severity, const Position& at, std::string message, std::string help,
                      std::size_t width, bool degrades) {
  Diagnostic d;
  d.degrades = degrades;
  d.severity = severity;
  d.file = at.file;
  d.line = at.line;
  d.column = at.column;
  d.message = std::move(message);
  d.help = std::move(help);
  d.width = static_cast<std::uint32_t>(std::clamp<std::size_t>(width, 1, UINT32_MAX));
  if (const auto found = source_index_.find(d.file); found != source_index_.end()) {
    if (at.line > 0) d.source_line = line_of(sources_[found->second], at.line);
  }
  add(std::move(d));
}

void Diagnostics::remember_source(std::string_view file, std::string_view text) {
  const auto [place, is_new] = source_index_.try_emplace(std::string(file), sources_.size());
  if (is_new) {
    sources_.emplace_back(text);
  } else {
    sources_[place->second] = text;
  }
}

void Diagnostics::sort() {
  const auto rank = [this](const Diagnostic& d) -> std::size_t {
    const auto found = source_index_.find(d.file);
    return found == source_index_.end() ? 0 : found->second + 1;
  };
  std::stable_sort(all_.begin(), all_.end(), [&](const Diagnostic& a, const Diagnostic& b) {
    const std::size_t rank_a = rank(a);
    const std::size_t rank_b = rank(b);
    return std::tie(rank_a, a.line, a.column) < std::tie(rank_b, b.line, b.column);
  });
}

std::string Diagnostics::format(const Diagnostic& d) const {
  std::string out = fmt::format("corehttpd: [{}] {}", level_name(d.severity), d.message);
  if (!d.file.empty()) {
    out.append(" in ").append(d.file);
    if (d.line > 0) fmt::format_to(std::back_inserter(out), ":{}:{}", d.line, d.column);
  }
  if (!d.source_line.empty() && d.column > 0) append_caret(out, d);
  if (!d.help.empty()) out.append("\n  help: ").append(d.help);
  return out;
}

std::string Diagnostics::format_all() const {
  std::string out;
  for (const Diagnostic& d : all_) out.append(format(d)).append("\n");
  if (dropped() > 0) {
    fmt::format_to(std::back_inserter(out), "corehttpd: [notice] {} more messages not shown\n",
                   dropped());
  }
  return out;
}

std::string Diagnostics::format_json() const {
  std::string out = "[";
  for (const Diagnostic& d : all_) {
    out.append(out.size() > 1 ? ",\n" : "\n");
    fmt::format_to(std::back_inserter(out), R"({{"severity":"{}","file":)", json_name(d.severity));
    append_json_string(out, d.file);
    fmt::format_to(std::back_inserter(out), R"(,"line":{},"column":{},"width":{},"message":)",
                   d.line, d.column, d.width);
    append_json_string(out, d.message);
    out.append(R"(,"hint":)");
    append_json_string(out, d.help);
    out.append(R"(,"text":)");
    append_json_string(out, d.source_line);
    out.append("}");
  }
  return out.append(all_.empty() ? "]\n" : "\n]\n");
}

}  // namespace corehttpd::conf
