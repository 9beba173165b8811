// Locations of one level (a server's, or those nested in a location), ready for looking up.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "corehttpd/base/arena.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/site.h"

namespace corehttpd::route {

struct LocationLevel;

struct LocationNode : http::Location {
  const LocationLevel* nested = nullptr;  // nullptr: no locations in it.
  const expr::Regex* pattern = nullptr;   // "~", "~*".
  bool no_regex = false;                  // "^~".
  bool auto_redirect = false;
};

// "=" and prefix locations in one radix tree: a single walk along the URI finds either. (An exact
// hash beside it would only add a second look at the URI.)
class PrefixTree {
 public:
  struct Match {
    enum class Kind : std::uint8_t { kNone, kPrefix, kExact, kAddSlash } kind = Kind::kNone;
    const LocationNode* location = nullptr;
  };
  // Names of one kind are unique.
  void build(Arena& arena, std::vector<const LocationNode*> locations);
  Match find(std::string_view uri) const;

 private:
  struct Node {
    std::string_view edge;  // What is added to the parent's name.
    const LocationNode* exact = nullptr;
    const LocationNode* prefix = nullptr;
    std::span<const Node> children;  // By the first byte of their edges.
  };
  using Sorted = std::span<const LocationNode* const>;
  static std::span<const Node> build_children(Arena& arena, Sorted sorted, std::size_t depth);
  static const Node* child(const Node& node, char first);

  Node root_;
};

struct LocationLevel {
  PrefixTree prefixes;
  std::span<const LocationNode* const> regexes;  // In the order of the file.
};

// Finds the location of exchange.uri() in level and what is nested in it. nullptr: none.
struct LocationFound {
  const LocationNode* location = nullptr;
  bool add_slash = false;
};
LocationFound find_location(http::Exchange& exchange, const LocationLevel& level);
// The same without an exchange: regexes are only asked. nullptr: none.
const LocationNode* locate(std::string_view uri, const LocationLevel& level);

}  // namespace corehttpd::route
