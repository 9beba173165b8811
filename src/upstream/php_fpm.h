// What php-fpm's pool files say of the backends that they start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/io/socket.h"

namespace corehttpd::upstream {

struct FpmPool {
  std::string name;
  io::Address address;
  bool everywhere = false;  // It listens on this port of all addresses.
  std::uint32_t children_max = 0;
  bool on_demand = false;   // Idle children are to end.
  std::string status_path;  // Of php-fpm's own page about it; empty: it has none.
};

// The pools of one file's text that say where they listen and how many children they have.
std::vector<FpmPool> parse_fpm_pools(std::string_view text);
// Of all files that match pattern (glob(7)); what cannot be read counts as empty.
std::vector<FpmPool> read_fpm_pools(const std::string& pattern);

}  // namespace corehttpd::upstream
