// Locations that no request can reach: warned of, since whoever wrote them thinks that they work.
#include <fmt/format.h>

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/diagnostics.h"
#include "route/builder.h"

namespace corehttpd::route {
namespace {

constexpr bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

using Level = std::vector<LocationBuild*>;

// The text with which every URI that the pattern matches begins; empty: none that is known.
std::string literal_prefix(std::string_view pattern) {
  std::string out;
  if (!pattern.starts_with('^') || pattern.find('|') != std::string_view::npos) return out;
  for (std::size_t i = 1; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\') {
      // "\." is a dot; "\d" is not a d.
      if (++i == pattern.size() || is_alphanumeric(pattern[i])) return out;
      c = pattern[i];
    } else if (std::string_view("?*{").find(c) != std::string_view::npos) {
      if (!out.empty()) out.pop_back();  // What stood before may not be there.
      return out;
    } else if (std::string_view(".[(+$^)").find(c) != std::string_view::npos) {
      return out;
    }
    out += c;
  }
  return out;
}

// Why a path cannot be that of a request; empty: it can.
const char* impossible_path(std::string_view path) {
  if (path.empty()) return "";
  if (path.front() != '/') return "the path of a request begins with \"/\"";
  if (path.find('?') != std::string_view::npos)
    return "the query is no part of what locations are matched with; it is in $args";
  for (std::size_t i = path.find('%'); i != std::string_view::npos; i = path.find('%', i + 1)) {
    if (i + 2 < path.size() && text::hex_value(path[i + 1]) >= 0 &&
        text::hex_value(path[i + 2]) >= 0)
      return "paths are matched decoded: write the character itself";
  }
  if (path.find("//") != std::string_view::npos) return "slashes in a row are made one";
  if (path.find("/./") != std::string_view::npos || path.find("/../") != std::string_view::npos)
    return "\".\" and \"..\" are resolved before";
  return "";
}

class Traps {
 public:
  explicit Traps(conf::Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void check(const Level& level) {
    for (const LocationBuild* location : level) {
      const LocationNode& node = *location->node;
      if (node.named) continue;
      if (node.regex) {
        check_regex(level, *location);
      } else if (const char* why = impossible_path(node.name); *why != '\0') {
        warn(*location, why);
      }
      check(location->nested);
    }
  }

 private:
  void check_regex(const Level& level, const LocationBuild& location) {
    const LocationNode& node = *location.node;
    for (const LocationBuild* other : level) {
      if (other == &location) break;
      if (!other->node->regex || other->node->name != node.name) continue;
      if (other->ignore_case || !location.ignore_case) {
        return warn(location, fmt::format("the one in {}:{} has the same pattern and comes first",
                                          other->at.file, other->at.line));
      }
    }
    const std::string prefix = literal_prefix(node.name);
    if (prefix.empty()) return;
    if (prefix[0] != '/') return warn(location, "the path of a request begins with \"/\"");
    check_spared(level, location, prefix);
  }

  // All that begins with prefix belongs to a "^~" location, which keeps regexes out.
  void check_spared(const Level& level, const LocationBuild& location, std::string_view prefix) {
    const LocationBuild* owner = nullptr;
    for (const LocationBuild* other : level) {
      const LocationNode& node = *other->node;
      if (node.regex || node.named || node.exact) continue;
      if (prefix.starts_with(node.name)) {
        if (owner == nullptr || node.name.size() > owner->node->name.size()) owner = other;
      } else if (node.name.starts_with(prefix) && !node.no_regex) {
        return;
      }
    }
    if (owner == nullptr || !owner->node->no_regex) return;
    warn(location, fmt::format("what it could match belongs to location \"^~ {}\" in {}:{}",
                               owner->node->name, owner->at.file, owner->at.line));
  }

  void warn(const LocationBuild& location, std::string why) {
    diagnostics_.add(conf::Severity::kWarning, location.name_at,
                     fmt::format("location \"{}\" never matches", location.node->name),
                     std::move(why), location.name_width);
  }

  conf::Diagnostics& diagnostics_;
};

const ServerBuild* server_of(const conf::Scope* scope) {
  for (; scope != nullptr; scope = scope->parent) {
    if (scope->context == conf::Context::kServer) {
      return static_cast<const ServerBuild*>(scope->object);
    }
  }
  return nullptr;
}

}  // namespace

void expect_named_location(const conf::Setting& s, std::size_t word) {
  const conf::Word& name = s.node.words[word];
  if (!name.text.starts_with('@') || name.text.find('$') != std::string_view::npos) return;
  s.compiler.object_or_make<Builder>().expected.push_back(
      {&s.scope, name.text, name.at, name.text.size() + (name.quoted ? 2 : 0)});
}

void warn_of_traps(conf::Compiler& compiler, const Builder& builder) {
  Traps traps(compiler.diagnostics());
  for (const ServerBuild* server : builder.servers) traps.check(server->locations);
  for (const ExpectedLocation& expected : builder.expected) {
    const ServerBuild* server = server_of(expected.scope);
    if (server == nullptr) continue;
    const bool found = std::any_of(
        server->locations.begin(), server->locations.end(),
        [&](const auto* one) { return one->node->named && one->node->name == expected.name; });
    if (found) continue;
    compiler.diagnostics().add(conf::Severity::kWarning, expected.at,
                               fmt::format("there is no location \"{}\"", expected.name),
                               "this server has none of that name: requests that are sent there "
                               "are answered with 500",
                               expected.width);
  }
}

}  // namespace corehttpd::route
