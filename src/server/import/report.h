// What the import has to tell, for people and, as JSON, for programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace corehttpd::server::importer {

enum class Weight : std::uint8_t {
  kInfo,      // Written differently, works as before.
  kDiffers,   // Accepted, but does not do here what it did.
  kReplaced,  // Taken out, with what became of the block it stood in.
};

struct Entry {
  std::string file;  // As the operator knows it; empty: the whole tree.
  std::uint32_t line = 0;
  Weight weight = Weight::kInfo;
  std::string name;     // The directive; may be empty.
  std::string message;  // What is so.
  std::string advice;   // What to do; may be empty.
};

class Report {
 public:
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  void sort();
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t count(Weight weight) const;
  // Grouped per file, in the order of the lines.
  std::string text() const;
  // {"entries": [{"file", "line", "kind": "info"|"differs"|"replaced", "directive", "message",
  // "advice"}…], "result": "clean"|"degraded"|"failed"}
  std::string json(int exit_code) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace corehttpd::server::importer
