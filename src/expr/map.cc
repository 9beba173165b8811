// map: a variable whose value depends on another string, by exact text, host masks and regexes.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/expr/text_table.h"
#include "corehttpd/http/exchange.h"
#include "expr/registry.h"

namespace corehttpd::expr {
namespace {

struct Map {
  struct Pattern {
    const Regex* regex = nullptr;
    std::uint32_t value = 0;
  };
  Program source;
  bool hostnames = false;
  bool cached = true;  // Not volatile: one evaluation per request.
  std::uint32_t slot = 0;
  TextTable exact;  // Lower case; unused with hostnames.
  HostTable hosts;
  std::span<const Pattern> patterns;
  std::span<const Program> values;  // values[0] is the default.
};

// Maps may refer to each other; a cycle is only seen when it is evaluated.
struct Depth {
  static constexpr int kMax = 50;
  int now = 0;
};

std::string_view lower(Arena& arena, std::string_view text) {
  if (std::none_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
    return text;
  }
  const std::span<char> copy = arena.make_array<char>(text.size());
  std::transform(text.begin(), text.end(), copy.begin(), text::lower);
  return {copy.data(), copy.size()};
}

const Program& choose(const Map& map, http::Exchange& exchange, std::string_view key) {
  std::uint32_t found = TextTable::kNone;
  if (map.hostnames) {
    if (key.ends_with('.')) key.remove_suffix(1);
    found = map.hosts.find(lower(exchange.arena(), key));
  } else {
    found = map.exact.find_ignore_case(key);
  }
  if (found != TextTable::kNone) return map.values[found];
  for (const Map::Pattern& pattern : map.patterns) {
    if (pattern.regex->match(exchange, key)) return map.values[pattern.value];
  }
  return map.values[0];
}

Value compute(http::Exchange& exchange, const void* context) {
  const Map& map = *static_cast<const Map*>(context);
  if (map.cached) {
    if (const Value known = get_slot(exchange, map.slot)) return known;
  }
  Depth& depth = exchange.state<Depth>();
  if (depth.now == Depth::kMax) {
    exchange.log(LogLevel::kError, 0, "cycle while evaluating a map of \"{}\"",
                 map.source.source());
    return std::nullopt;
  }
  ++depth.now;
  const std::string_view key = map.source.evaluate(exchange);
  const std::string_view value = choose(map, exchange, key).evaluate(exchange);
  --depth.now;
  // A view without an address would read as "not set".
  const std::string_view kept = value.data() == nullptr ? std::string_view("") : value;
  if (map.cached) set_slot(exchange, map.slot, kept);
  return kept;
}

// Reads the lines of one map block.
class MapReader {
 public:
  MapReader(const conf::Setting& setting, Map& map)
      : setting_(setting), compiler_(setting.compiler), arena_(setting.arena()), map_(map) {
    values_.emplace_back();  // The default's place; "" unless given.
  }

  bool read() {
    // Wherever it stands in the block "hostnames" is meant for all of it.
    for (const conf::Node& line : setting_.node.children) {
      if (line.words.empty() && line.name.text == "hostnames") map_.hostnames = true;
    }
    bool fine = true;
    for (const conf::Node& line : setting_.node.children) fine &= read_line(line);
    if (fine) build();
    return fine;
  }

 private:
  bool read_line(const conf::Node& line) {
    const std::string_view key = line.name.text;
    if (line.words.empty() && key == "hostnames") return true;
    if (line.words.empty() && key == "volatile") {
      map_.cached = false;
      return true;
    }
    if (line.words.size() != 1) {
      return fail(line, "invalid number of the map parameters",
                  "each line is a value and what it becomes: example.org 1;");
    }
    if (key == "default") {
      if (has_default_) return fail(line, "duplicate default map parameter");
      has_default_ = true;
      return compile_program(compiler_, line.words[0], line.words[0].text, values_[0]);
    }
    const std::uint32_t value = static_cast<std::uint32_t>(values_.size());
    values_.emplace_back();
    if (!compile_program(compiler_, line.words[0], line.words[0].text, values_.back()))
      return false;
    return key.starts_with('~') ? add_pattern(line, value) : add_key(line, value);
  }

  bool add_pattern(const conf::Node& line, std::uint32_t value) {
    std::string_view pattern = line.name.text.substr(1);
    const bool ignore_case = pattern.starts_with('*');
    if (ignore_case) pattern.remove_prefix(1);
    const Regex* regex = Regex::compile(compiler_, line.name, pattern, ignore_case);
    if (regex == nullptr) return false;
    patterns_.push_back({regex, value});
    return true;
  }

  bool add_key(const conf::Node& line, std::uint32_t value) {
    std::string_view key = line.name.text;
    if (key.starts_with('\\')) key.remove_prefix(1);  // Takes a special meaning away: "\default".
    if (map_.hostnames && key.size() > 1 && key.ends_with('.')) key.remove_suffix(1);
    key = lower(arena_, key);
    auto added = HostTableBuilder::Added::kYes;
    if (map_.hostnames) {
      added = hosts_.add(key, value);
    } else if (!exact_.emplace(key, value).second) {
      added = HostTableBuilder::Added::kDuplicate;
    }
    if (added == HostTableBuilder::Added::kInvalid) {
      return fail(line, fmt::format("invalid hostname or wildcard \"{}\"", line.name.text));
    }
    if (added == HostTableBuilder::Added::kDuplicate) {
      return fail(line, fmt::format("conflicting parameter \"{}\"", line.name.text));
    }
    return true;
  }

  void build() {
    std::vector<TextTable::Entry> entries;
    for (const auto& [key, value] : exact_) entries.push_back({key, value});
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    map_.exact.build(arena_, entries);
    map_.hosts = hosts_.build(arena_);
    const auto patterns = arena_.make_array<Map::Pattern>(patterns_.size());
    std::copy(patterns_.begin(), patterns_.end(), patterns.begin());
    map_.patterns = patterns;
    const auto values = arena_.make_array<Program>(values_.size());
    std::copy(values_.begin(), values_.end(), values.begin());
    map_.values = values;
  }

  bool fail(const conf::Node& line, std::string message, std::string help = {}) {
    compiler_.diagnostics().add(conf::Severity::kError, line.name.at, std::move(message),
                                std::move(help),
                                line.name.text.size() + (line.name.quoted ? 2 : 0));
    return false;
  }

  const conf::Setting& setting_;
  conf::Compiler& compiler_;
  Arena& arena_;
  Map& map_;
  bool has_default_ = false;
  std::vector<Program> values_;
  std::vector<Map::Pattern> patterns_;
  std::unordered_map<std::string_view, std::uint32_t> exact_;
  HostTableBuilder hosts_;
};

}  // namespace

bool set_map(const conf::Setting& setting) {
  std::string_view name = setting.word(1);
  if (name.size() < 2 || name[0] != '$') {
    return setting.fail(1, "invalid variable name \"{}\"", name);
  }
  name.remove_prefix(1);
  Map* const map = setting.arena().make<Map>();
  if (!read_program(setting, 0, map->source)) return false;
  if (!MapReader(setting, *map).read()) return false;
  Registry& names = registry(setting.compiler);
  map->slot = names.anonymous_slot();
  if (!names.define(name, compute, map)) {
    return setting.fail(1, "the duplicate \"{}\" variable", name);
  }
  return true;
}

}  // namespace corehttpd::expr
