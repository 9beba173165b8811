#include "corehttpd/conf/later.h"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "conf/later_groups.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::conf {
namespace {

// Nothing is set, but a module has settings.
struct LaterSettings {};

// The next word of rest, consumed; empty at the end.
std::string_view next_word(std::string_view& rest) {
  const std::size_t start = std::min(rest.find_first_not_of(' '), rest.size());
  rest.remove_prefix(start);
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

struct Table {
  std::deque<std::string> names;  // Does not move what rows point to.
  std::vector<Directive> rows;
  Module module;

  Table() {
    for (const auto groups : {later_core_groups(), later_module_groups(), later_gateway_groups(),
                              later_refused_groups()}) {
      for (const LaterGroup& group : groups) add(group);
    }
    module = conf::module<LaterSettings>("later", rows);
    module.yields = true;
  }

  void add(const LaterGroup& group) {
    std::string_view prefixes = group.prefixes;
    do {
      const std::string_view prefix = next_word(prefixes);
      std::string_view rest = group.names;
      for (auto name = next_word(rest); !name.empty(); name = next_word(rest)) {
        std::string& full = names.emplace_back(prefix);
        full.append(name);
        // Arguments are not checked: their meaning is not known yet. Nothing is inherited, so that
        // no repetition is an error.
        rows.push_back({.name = full,
                        .contexts = group.contexts,
                        .kind = group.kind,
                        .arity = at_least(0),
                        .syntax = "...",
                        .set = set_nothing,
                        .inherit = Inherit::kNone,
                        .stage = group.stage,
                        .doc = group.doc});
      }
    } while (!prefixes.empty());
  }
};

}  // namespace

const Module& later_module() {
  static const Table table;
  return table.module;
}

}  // namespace corehttpd::conf
