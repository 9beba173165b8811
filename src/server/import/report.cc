#include "server/import/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "corehttpd/base/json.h"

namespace corehttpd::server::importer {
namespace {

const char* kind_of(Weight weight) {
  switch (weight) {
    case Weight::kInfo:
      return "info";
    case Weight::kDiffers:
      return "differs";
    case Weight::kReplaced:
      return "replaced";
  }
  return "info";
}

// Terminals must not get control bytes from a file.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

}  // namespace

void Report::sort() {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.file, a.line) < std::tie(b.file, b.line);
  });
  const auto same = [](const Entry& a, const Entry& b) {
    return std::tie(a.file, a.line, a.name, a.message) ==
           std::tie(b.file, b.line, b.name, b.message);
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
}

std::size_t Report::count(Weight weight) const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [weight](const Entry& entry) { return entry.weight == weight; }));
}

std::string Report::text() const {
  std::string out;
  const std::string* file = nullptr;
  for (const Entry& entry : entries_) {
    if (file == nullptr || *file != entry.file) {
      if (!out.empty()) out += "\n";
      out.append(entry.file.empty() ? "The whole tree" : printable(entry.file)).append("\n");
      file = &entry.file;
    }
    const std::string place =
        entry.line == 0 ? "" : fmt::format("{}:{}: ", printable(entry.file), entry.line);
    fmt::format_to(std::back_inserter(out), "  {}{:<8} ", place, kind_of(entry.weight));
    if (!entry.name.empty()) out.append("\"").append(printable(entry.name)).append("\": ");
    out.append(printable(entry.message)).append("\n");
    if (!entry.advice.empty()) out.append("      -> ").append(printable(entry.advice)).append("\n");
  }
  return out;
}

std::string Report::json(int exit_code) const {
  std::string out = "{\"entries\": [";
  for (const Entry& entry : entries_) {
    out += &entry == entries_.data() ? "\n" : ",\n";
    out += "{\"file\": ";
    append_json_string(out, entry.file);
    fmt::format_to(std::back_inserter(out),
                   ", \"line\": {}, \"kind\": \"{}\", \"directive\": ", entry.line,
                   kind_of(entry.weight));
    append_json_string(out, entry.name);
    out += ", \"message\": ";
    append_json_string(out, entry.message);
    out += ", \"advice\": ";
    append_json_string(out, entry.advice);
    out += "}";
  }
  const char* result = exit_code == 0 ? "clean" : exit_code == 2 ? "degraded" : "failed";
  out.append("\n], \"result\": \"").append(result).append("\"}\n");
  return out;
}

}  // namespace corehttpd::server::importer
