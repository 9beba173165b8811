#include "corehttpd/base/json.h"

namespace corehttpd {
namespace {

// Length of the well-formed UTF-8 sequence at the start of text; 0 if it is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
    return 4;
  }
  return 0;
}

// The escape of an ASCII character that needs one, in buffer where it has to be made; else empty.
std::string_view ascii_escape(unsigned char c, char (&buffer)[6]) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  if (c >= 0x20) return {};
  static constexpr char kDigits[] = "0123456789ABCDEF";
  const char made[6] = {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
  for (int i = 0; i < 6; ++i) buffer[i] = made[i];
  return {buffer, 6};
}

}  // namespace

void append_json(std::string& out, std::string_view value, std::size_t bytes_max) {
  char buffer[6];
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  for (;;) {
    std::size_t run = 0;  // What needs nothing is appended in one piece.
    while (run < value.size() && run < bytes_max && plain(value[run])) ++run;
    out.append(value.data(), run);
    value.remove_prefix(run);
    bytes_max -= run;
    if (value.empty()) return;
    std::size_t length = utf8_length(value);
    std::string_view piece = length == 0 ? "\xef\xbf\xbd" : value.substr(0, length);
    if (length == 1) {
      const std::string_view escaped =
          ascii_escape(static_cast<unsigned char>(value.front()), buffer);
      if (!escaped.empty()) piece = escaped;
    }
    if (piece.size() > bytes_max) return;
    bytes_max -= piece.size();
    out.append(piece);
    value.remove_prefix(length == 0 ? 1 : length);
  }
}

void append_json_string(std::string& out, std::string_view value) {
  out += '"';
  append_json(out, value);
  out += '"';
}

}  // namespace corehttpd
