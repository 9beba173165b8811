// Files that the master reads whole: certificates, keys, tickets' keys.
#pragma once

#include <string>
#include <string_view>

namespace corehttpd::tls {

// Of at most 1 MiB. What failed; empty: text holds it. fifo: it may be one, which whoever knows the
// passphrases writes to within kFifoPatienceMs.
constexpr int kFifoPatienceMs = 5000;
std::string read_small_file(std::string_view path, std::string& text, bool fifo = false);
// Overwrites what was a key, so that it does not stay in freed memory.
void forget_text(std::string& text);

}  // namespace corehttpd::tls
