#include "corehttpd/expr/text_table.h"

#include <algorithm>
#include <bit>

#include "corehttpd/base/text.h"

namespace corehttpd::expr {
namespace {

// FNV-1a: short keys, no seed needed (see the header).
template <bool IgnoreCase>
std::uint64_t hash(std::string_view key) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char c : key) {
    h = (h ^ static_cast<unsigned char>(IgnoreCase ? text::lower(c) : c)) * 0x100000001b3u;
  }
  return h ^ (h >> 32);
}

}  // namespace

void TextTable::build(Arena& arena, std::span<const Entry> entries) {
  entries_ = arena.make_array<Entry>(entries.size());
  std::copy(entries.begin(), entries.end(), entries_.begin());
  if (entries.empty()) {
    buckets_ = {};
    return;
  }
  // At most two thirds full, so that probing always meets a free bucket.
  buckets_ =
      arena.make_array<std::uint32_t>(std::bit_ceil(entries.size() + entries.size() / 2 + 1));
  const std::size_t mask = buckets_.size() - 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t at = hash<false>(entries_[i].key) & mask;
    while (buckets_[at] != 0) at = (at + 1) & mask;
    buckets_[at] = static_cast<std::uint32_t>(i + 1);
  }
}

template <bool IgnoreCase>
std::uint32_t TextTable::look(std::string_view key) const {
  if (buckets_.empty()) return kNone;
  const std::size_t mask = buckets_.size() - 1;
  for (std::size_t at = hash<IgnoreCase>(key) & mask; buckets_[at] != 0; at = (at + 1) & mask) {
    const Entry& entry = entries_[buckets_[at] - 1];
    if constexpr (IgnoreCase) {
      if (text::equals_ignore_case(entry.key, key)) return entry.value;
    } else {
      if (entry.key == key) return entry.value;
    }
  }
  return kNone;
}

std::uint32_t TextTable::find(std::string_view key) const { return look<false>(key); }
std::uint32_t TextTable::find_ignore_case(std::string_view key) const { return look<true>(key); }

std::uint32_t HostTable::find(std::string_view host) const {
  if (std::uint32_t found = exact_.find(host); found != kNone) return found;
  if (leading_.size() != 0) {
    // From the first dot on, so the longest mask comes first. A mask needs something before its
    // dot.
    for (std::size_t dot = host.find('.', 1); dot != std::string_view::npos;
         dot = host.find('.', dot + 1)) {
      if (std::uint32_t found = leading_.find(host.substr(dot)); found != kNone) return found;
    }
  }
  if (trailing_.size() != 0) {
    for (std::size_t dot = host.rfind('.'); dot != std::string_view::npos && dot != 0;
         dot = host.rfind('.', dot - 1)) {
      // "www.example." itself has nothing where the mask has its star.
      if (dot + 1 == host.size()) continue;
      if (std::uint32_t found = trailing_.find(host.substr(0, dot + 1)); found != kNone) {
        return found;
      }
    }
  }
  return kNone;
}

HostTableBuilder::Added HostTableBuilder::add(std::string_view name, std::uint32_t value) {
  if (name.find("..") != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return Added::kInvalid;
  }
  const auto stars = std::count(name.begin(), name.end(), '*');
  if (stars > 1) return Added::kInvalid;
  if (stars == 1) {
    if (name.size() > 2 && name.starts_with("*.")) {
      return leading_.emplace(name.substr(1), value).second ? Added::kYes : Added::kDuplicate;
    }
    if (name.size() > 2 && name.ends_with(".*")) {
      return trailing_.emplace(name.substr(0, name.size() - 1), value).second ? Added::kYes
                                                                              : Added::kDuplicate;
    }
    return Added::kInvalid;
  }
  if (name.size() > 1 && name.front() == '.') {
    const bool plain = exact_.emplace(name.substr(1), value).second;
    const bool mask = leading_.emplace(name, value).second;
    return plain && mask ? Added::kYes : Added::kDuplicate;
  }
  return exact_.emplace(name, value).second ? Added::kYes : Added::kDuplicate;
}

HostTable HostTableBuilder::build(Arena& arena) const {
  auto make = [&arena](const Names& names, TextTable& table) {
    std::vector<TextTable::Entry> entries;
    entries.reserve(names.size());
    for (const auto& [key, value] : names) entries.push_back({key, value});
    // The order of an unordered_map must not decide anything, not even the layout.
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    table.build(arena, entries);
  };
  HostTable table;
  make(exact_, table.exact_);
  make(leading_, table.leading_);
  make(trailing_, table.trailing_);
  return table;
}

}  // namespace corehttpd::expr
