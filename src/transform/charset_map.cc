#include "transform/charset_map.h"

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::transform {
namespace {

using conf::Setting;

// "D18E": an even number of hex digits, at most bytes_max bytes.
bool read_code(std::string_view text, std::size_t bytes_max, CharsetCode& code) {
  if (text.empty() || text.size() % 2 != 0 || text.size() / 2 > bytes_max) return false;
  code.length = 0;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = text::hex_value(text[i]), low = text::hex_value(text[i + 1]);
    if (high < 0 || low < 0) return false;
    code.bytes[code.length++] = static_cast<char>(high * 16 + low);
  }
  return true;
}

std::uint32_t utf8_character(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return first;
  std::uint32_t character = first & (0xffu >> (bytes.size() + 1));
  for (const char c : bytes.substr(1)) {
    character = character << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  }
  return character;
}

// ASCII stands for itself, whatever else the block says.
void begin(CharsetMap& map) {
  for (std::size_t i = 0; i < map.forward.size(); ++i) {
    map.forward[i].bytes[0] = i < 0x80 ? static_cast<char>(i) : '?';
    map.forward[i].length = 1;
  }
}

bool read_line(const Setting& s, const conf::Node& line, CharsetMap& map,
               ArenaVector<CharsetMap::Back>& backward) {
  if (line.is_block || line.words.size() != 1) {
    return s.fail(Setting::kWholeDirective, "invalid parameters number in \"charset_map\"");
  }
  CharsetCode from, to;
  if (!read_code(line.name.text, 1, from)) {
    return s.fail(Setting::kWholeDirective, "invalid value \"{}\" in \"charset_map\"",
                  line.name.text);
  }
  const std::string_view target = line.words[0].text;
  const bool readable = read_code(target, map.utf8 ? 4 : 1, to);
  if (!readable || (map.utf8 && text::utf8_length(to.view()) != to.length)) {
    return s.fail(Setting::kWholeDirective, "invalid value \"{}\" in \"charset_map\"", target);
  }
  map.forward[static_cast<unsigned char>(from.bytes[0])] = to;
  const std::uint32_t character =
      map.utf8 ? utf8_character(to.view()) : static_cast<unsigned char>(to.bytes[0]);
  backward.push_back(s.arena(), {character, from.bytes[0]});
  return true;
}

}  // namespace

std::optional<char> CharsetMap::find_back(std::uint32_t character) const {
  const auto found = std::lower_bound(
      backward.begin(), backward.end(), character,
      [](const Back& one, std::uint32_t wanted) { return one.character < wanted; });
  if (found != backward.end() && found->character == character) return found->byte;
  if (character < 0x80) return static_cast<char>(character);
  return std::nullopt;
}

std::optional<Recoding> find_recoding(const CharsetSettings& settings, std::string_view from,
                                      std::string_view to) {
  for (const CharsetMap* map : settings.maps) {
    if (text::equals_ignore_case(map->from, from) && text::equals_ignore_case(map->to, to)) {
      return Recoding{map, false};
    }
    if (text::equals_ignore_case(map->from, to) && text::equals_ignore_case(map->to, from)) {
      return Recoding{map, true};
    }
  }
  return std::nullopt;
}

bool set_charset_map(const Setting& s) {
  auto& settings = *static_cast<CharsetSettings*>(s.settings);
  if (text::equals_ignore_case(s.word(0), s.word(1))) {
    return s.fail(0, "\"charset_map\" between the same charsets \"{}\" and \"{}\"", s.word(0),
                  s.word(1));
  }
  if (text::equals_ignore_case(s.word(0), "utf-8")) {
    return s.fail(0, "\"utf-8\" must be the second charset of \"charset_map\"");
  }
  if (find_recoding(settings, s.word(0), s.word(1))) {
    return s.fail(0, "duplicate \"charset_map\" between \"{}\" and \"{}\"", s.word(0), s.word(1));
  }
  auto* map = s.arena().make<CharsetMap>();
  map->from = s.word(0);
  map->to = s.word(1);
  map->utf8 = text::equals_ignore_case(map->to, "utf-8");
  begin(*map);
  ArenaVector<CharsetMap::Back> backward;
  for (const conf::Node& line : s.node.children) {
    if (!read_line(s, line, *map, backward)) return false;
  }
  std::stable_sort(backward.begin(), backward.end(),
                   [](const auto& a, const auto& b) { return a.character < b.character; });
  map->backward = backward;
  const auto maps = s.arena().make_array<const CharsetMap*>(settings.maps.size() + 1);
  std::copy(settings.maps.begin(), settings.maps.end(), maps.begin());
  maps.back() = map;
  settings.maps = maps;
  return true;
}

}  // namespace corehttpd::transform
