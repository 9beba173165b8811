#include "corehttpd/base/json.h"

#include "corehttpd/base/text.h"

namespace corehttpd {
namespace {

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
    std::size_t length = text::utf8_length(value);
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
