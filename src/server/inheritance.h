// What a master hands to the binary that takes its place, over fork and exec: descriptors, and an
// environment variable that says what each is. See docs/formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace corehttpd::server {

// A master that drains after an upgrade.
struct Elder {
  int pidfd = -1;
  std::uint32_t generations = 1;  // That it had when it handed over.
};

struct Inheritance {
  std::vector<int> listeners;
  std::vector<Elder> elders;     // Oldest first; the last one is who hands over.
  int counters = -1;             // The memfd of the counters.
  int tickets = -1;              // The memfd of the tickets' keys.
  std::vector<int> sessions;     // Memfds of ssl_session_cache.
  int ready = -1;                // A pipe: "ready\n" when all workers are, or why not.
  std::uint64_t generation = 0;  // The last number given.
};

inline constexpr const char* kInheritanceVariable = "COREHTTPD_INHERITED";

// "v1;generation=7;listen=5;counters=8;elder=9:1;ready=10".
std::string encode(const Inheritance& inheritance);
// Unknown words are left out, so that an older binary can follow a newer one; nothing for another
// version or a malformed number.
std::optional<Inheritance> decode(std::string_view text);
// Reads and removes the variable. Descriptors that are not open are left out; the others are closed
// on the next exec.
std::optional<Inheritance> take_inheritance();
// All descriptors, to clear FD_CLOEXEC on or to close.
std::vector<int> descriptors(const Inheritance& inheritance);

}  // namespace corehttpd::server
