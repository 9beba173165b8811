// The Priority field and the value of a PRIORITY_UPDATE frame (RFC 9218 §4): how urgent a response
// is, and whether pieces of it are of use.
#pragma once

#include <cstdint>
#include <string_view>

namespace corehttpd::h2 {

struct Priority {
  std::uint8_t urgency = 3;  // 0, first, to 7.
  bool incremental = false;
};

// Reads a structured dictionary (RFC 8941 §3.2) as far as the two members go. What is unknown, out
// of range or of another type says nothing (RFC 9218 §4), and the last of equal members counts.
constexpr Priority parse_priority(std::string_view value) {
  Priority priority;
  while (!value.empty()) {
    std::string_view member = value.substr(0, value.find(','));
    value.remove_prefix(member.size() == value.size() ? value.size() : member.size() + 1);
    member = member.substr(0, member.find(';'));  // Parameters mean nothing.
    while (!member.empty() && (member.front() == ' ' || member.front() == '\t'))
      member.remove_prefix(1);
    while (!member.empty() && (member.back() == ' ' || member.back() == '\t'))
      member.remove_suffix(1);
    if (member.size() == 3 && member.starts_with("u=") && member[2] >= '0' && member[2] <= '7') {
      priority.urgency = static_cast<std::uint8_t>(member[2] - '0');
    } else if (member == "i" || member == "i=?1") {
      priority.incremental = true;
    } else if (member == "i=?0") {
      priority.incremental = false;
    }
  }
  return priority;
}

}  // namespace corehttpd::h2
