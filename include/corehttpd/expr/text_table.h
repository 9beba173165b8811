// Immutable tables from text to a number, made with the configuration: names of variables' values,
// server names, map keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/base/arena.h"

namespace corehttpd::expr {

// Open addressing, 32 bytes per key. The keys are the operator's, so nobody outside can choose
// colliding ones; a lookup that misses costs one hash and about one probe.
class TextTable {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Entry {
    std::string_view key;  // Must live as long as the table.
    std::uint32_t value = kNone;
  };
  // Keys are unique. Storage is taken from the arena.
  void build(Arena& arena, std::span<const Entry> entries);
  std::uint32_t find(std::string_view key) const;
  // The keys must have been lower case when the table was built.
  std::uint32_t find_ignore_case(std::string_view key) const;
  std::size_t size() const { return entries_.size(); }

 private:
  template <bool IgnoreCase>
  std::uint32_t look(std::string_view key) const;

  std::span<Entry> entries_;
  std::span<std::uint32_t> buckets_;  // 1 + index of an entry; 0: free. A power of two.
};

// Host names with nginx's masks: exact names, then the longest "*.example.org", then the longest
// "www.example.*". All lower case.
class HostTable {
 public:
  static constexpr std::uint32_t kNone = TextTable::kNone;
  // host: lower case, without a trailing dot.
  std::uint32_t find(std::string_view host) const;
  bool empty() const { return exact_.size() + leading_.size() + trailing_.size() == 0; }

 private:
  friend class HostTableBuilder;
  TextTable exact_;
  TextTable leading_;   // Keys begin with the dot: ".example.org".
  TextTable trailing_;  // Keys end with the dot: "www.example.".
};

// Gathers names while a configuration is compiled.
class HostTableBuilder {
 public:
  enum class Added : std::uint8_t { kYes, kDuplicate, kInvalid };
  // name: lower case; plain, "*.example.org", "www.example.*", or ".example.org" (which is both
  // the name and its mask). Must live as long as the table. kDuplicate: nothing was added, or for
  // the last form only what was not there yet.
  Added add(std::string_view name, std::uint32_t value);
  HostTable build(Arena& arena) const;

 private:
  using Names = std::unordered_map<std::string_view, std::uint32_t>;
  Names exact_, leading_, trailing_;
};

}  // namespace corehttpd::expr
