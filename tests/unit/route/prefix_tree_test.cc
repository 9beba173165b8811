// The radix tree against the plainest search: over names that share and split in every way, both
// must find the same.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "route/location_tree.h"

namespace corehttpd::route {
namespace {

std::string random_text(std::mt19937& random, std::size_t length_max) {
  static constexpr char kLetters[] = {'/', 'a', 'b', '\xff'};
  std::string text(random() % (length_max + 1), '/');
  for (char& c : text) c = kLetters[random() % sizeof(kLetters)];
  return text;
}

PrefixTree::Match search(const std::vector<const LocationNode*>& all, std::string_view uri) {
  using Kind = PrefixTree::Match::Kind;
  const LocationNode* exact = nullptr;
  const LocationNode* longest = nullptr;
  const LocationNode* slashed = nullptr;
  const std::string with_slash = std::string(uri) + "/";
  for (const LocationNode* one : all) {
    if (one->exact && one->name == uri) exact = one;
    if (!one->exact && uri.starts_with(one->name) &&
        (longest == nullptr || one->name.size() > longest->name.size())) {
      longest = one;
    }
    // As in nginx the prefix location answers where both kinds have the name.
    if (one->auto_redirect && one->name == with_slash && (slashed == nullptr || !one->exact)) {
      slashed = one;
    }
  }
  if (exact != nullptr) return {Kind::kExact, exact};
  if (longest != nullptr && longest->name == uri) return {Kind::kPrefix, longest};
  if (slashed != nullptr) return {Kind::kAddSlash, slashed};
  if (longest != nullptr) return {Kind::kPrefix, longest};
  return {};
}

TEST(PrefixTree, FindsWhatALinearSearchFinds) {
  std::mt19937 random(20241130);
  for (int round = 0; round < 300; ++round) {
    Arena arena;
    std::deque<std::string> names;
    std::set<std::pair<std::string, bool>> known;
    std::vector<const LocationNode*> all;
    for (std::size_t i = random() % 20; i > 0; --i) {
      const bool exact = random() % 4 == 0;
      std::string name = random_text(random, 6);
      if (!known.emplace(name, exact).second) continue;
      names.push_back(std::move(name));
      LocationNode* node = arena.make<LocationNode>();
      node->name = names.back();
      node->exact = exact;
      // Both kinds of one name are alike here, so that it does not matter which of them redirects.
      node->auto_redirect = names.back().ends_with('/') && names.back().size() % 2 == 0;
      all.push_back(node);
    }
    PrefixTree tree;
    tree.build(arena, all);
    for (int i = 0; i < 200; ++i) {
      const std::string uri = random_text(random, 8);
      const PrefixTree::Match expected = search(all, uri);
      const PrefixTree::Match found = tree.find(uri);
      ASSERT_EQ(found.kind, expected.kind) << "uri " << uri << " round " << round;
      ASSERT_EQ(found.location, expected.location) << "uri " << uri << " round " << round;
    }
  }
}

}  // namespace
}  // namespace corehttpd::route
