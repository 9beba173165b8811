// charset_map: what turns text of one character set into another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/transform/transforms.h"

namespace corehttpd::transform {

// One character of the target, as bytes.
struct CharsetCode {
  std::array<char, 4> bytes{};
  std::uint8_t length = 0;
  std::string_view view() const { return {bytes.data(), length}; }
};

// One charset_map block: pairs of a byte of an eight-bit set and a character of the other set,
// which has one byte as well or is UTF-8. Works in both directions. Lives in the configuration.
struct CharsetMap {
  std::string_view from, to;               // Names.
  bool utf8 = false;                       // to is UTF-8.
  std::array<CharsetCode, 256> forward{};  // By byte of from; what is not mapped is '?'.
  // By character of to, ascending: the byte of from. Not of ASCII, which is the same everywhere.
  struct Back {
    std::uint32_t character;
    char byte;
  };
  std::span<const Back> backward;

  std::optional<char> find_back(std::uint32_t character) const;
};

// One way through a map.
struct Recoding {
  const CharsetMap* map = nullptr;
  bool back = false;
  bool from_utf8() const { return back && map->utf8; }
  bool changes_length() const { return map->utf8; }
};

// Nothing if no block maps the two, in either direction. Case of names is ignored.
std::optional<Recoding> find_recoding(const CharsetSettings& settings, std::string_view from,
                                      std::string_view to);

// The setter of charset_map.
bool set_charset_map(const conf::Setting& setting);

}  // namespace corehttpd::transform
