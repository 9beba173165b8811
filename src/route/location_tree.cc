#include "route/location_tree.h"

#include <algorithm>

namespace corehttpd::route {
namespace {

// Does text end with the slash whose absence nginx's auto redirect mends, and is rest all before
// it?
bool lacks_only_slash(std::string_view edge, std::string_view rest) {
  return edge.size() == rest.size() + 1 && edge.back() == '/' && edge.starts_with(rest);
}

enum class Outcome : std::uint8_t { kDeclined, kPrefix, kFinal };

// matches: how a location's pattern is asked.
template <class Matches>
Outcome find_in_level(std::string_view uri, const LocationLevel& level, const Matches& matches,
                      LocationFound& found) {
  const PrefixTree::Match match = level.prefixes.find(uri);
  Outcome outcome = Outcome::kDeclined;
  bool no_regex = false;
  switch (match.kind) {
    case PrefixTree::Match::Kind::kNone:
      break;
    case PrefixTree::Match::Kind::kAddSlash:
      found.add_slash = true;
      [[fallthrough]];
    case PrefixTree::Match::Kind::kExact:
      found.location = match.location;
      return Outcome::kFinal;
    case PrefixTree::Match::Kind::kPrefix:
      found.location = match.location;
      no_regex = match.location->no_regex;
      outcome = Outcome::kPrefix;
      if (match.location->nested != nullptr &&
          find_in_level(uri, *match.location->nested, matches, found) == Outcome::kFinal) {
        return Outcome::kFinal;
      }
      break;
  }
  // A "^~" spares the URI the regexes beside it, not those nested in it.
  if (no_regex) return outcome;
  for (const LocationNode* location : level.regexes) {
    if (!matches(*location->pattern)) continue;
    found.location = location;
    if (location->nested != nullptr) find_in_level(uri, *location->nested, matches, found);
    return Outcome::kFinal;
  }
  return outcome;
}

}  // namespace

void PrefixTree::build(Arena& arena, std::vector<const LocationNode*> locations) {
  std::sort(locations.begin(), locations.end(),
            [](const LocationNode* a, const LocationNode* b) { return a->name < b->name; });
  Sorted sorted(locations);
  root_ = {};
  while (!sorted.empty() && sorted.front()->name.empty()) {
    (sorted.front()->exact ? root_.exact : root_.prefix) = sorted.front();
    sorted = sorted.subspan(1);
  }
  root_.children = build_children(arena, sorted, 0);
}

// sorted: locations that share their first depth bytes and are longer.
std::span<const PrefixTree::Node> PrefixTree::build_children(Arena& arena, Sorted sorted,
                                                             std::size_t depth) {
  std::vector<Node> nodes;
  while (!sorted.empty()) {
    const std::string_view first = sorted.front()->name;
    std::size_t count = 1;
    while (count < sorted.size() && sorted[count]->name[depth] == first[depth]) ++count;
    // The first and the last of a sorted group differ as early as any two of it do.
    const std::string_view last = sorted[count - 1]->name;
    std::size_t common = depth + 1;
    while (common < first.size() && common < last.size() && first[common] == last[common]) {
      ++common;
    }
    Node node;
    node.edge = first.substr(depth, common - depth);
    Sorted group = sorted.first(count);
    while (!group.empty() && group.front()->name.size() == common) {
      (group.front()->exact ? node.exact : node.prefix) = group.front();
      group = group.subspan(1);
    }
    node.children = build_children(arena, group, common);
    nodes.push_back(node);
    sorted = sorted.subspan(count);
  }
  const std::span<Node> made = arena.make_array<Node>(nodes.size());
  std::copy(nodes.begin(), nodes.end(), made.begin());
  return made;
}

const PrefixTree::Node* PrefixTree::child(const Node& node, char first) {
  // Sorted by unsigned bytes, as string_view compares.
  const auto less = [](const Node& a, char c) {
    return static_cast<unsigned char>(a.edge.front()) < static_cast<unsigned char>(c);
  };
  const auto at = std::lower_bound(node.children.begin(), node.children.end(), first, less);
  return at != node.children.end() && at->edge.front() == first ? &*at : nullptr;
}

PrefixTree::Match PrefixTree::find(std::string_view uri) const {
  Match match;
  const Node* node = &root_;
  std::string_view rest = uri;
  for (;;) {
    if (node->prefix != nullptr) match = {Match::Kind::kPrefix, node->prefix};
    if (rest.empty()) {
      if (node->exact != nullptr) return {Match::Kind::kExact, node->exact};
      if (node->prefix != nullptr) return match;
    }
    const Node* next = child(*node, rest.empty() ? '/' : rest.front());
    if (next == nullptr) return match;
    if (!rest.starts_with(next->edge) || rest.empty()) {
      const LocationNode* slashed = next->prefix != nullptr ? next->prefix : next->exact;
      const bool redirects = (next->prefix != nullptr && next->prefix->auto_redirect) ||
                             (next->exact != nullptr && next->exact->auto_redirect);
      if (redirects && lacks_only_slash(next->edge, rest)) {
        return {Match::Kind::kAddSlash, slashed};
      }
      return match;
    }
    rest.remove_prefix(next->edge.size());
    node = next;
  }
}

LocationFound find_location(http::Exchange& exchange, const LocationLevel& level) {
  LocationFound found;
  const auto matches = [&](const expr::Regex& pattern) {
    return pattern.match(exchange, exchange.uri());
  };
  find_in_level(exchange.uri(), level, matches, found);
  return found;
}

const LocationNode* locate(std::string_view uri, const LocationLevel& level) {
  LocationFound found;
  const auto matches = [&](const expr::Regex& pattern) { return pattern.test(uri); };
  find_in_level(uri, level, matches, found);
  return found.location;
}

}  // namespace corehttpd::route
