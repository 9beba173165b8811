#include "corehttpd/http/target.h"

#include <array>
#include <cstring>

#include "corehttpd/base/ip_address.h"
#include "corehttpd/base/text.h"

namespace corehttpd::http {
namespace {

std::unexpected<Error> malformed(const char* context) {
  return fail(Code::kMalformed, context, 400, Party::kClient);
}

constexpr bool is_control_or_blank(char c) {
  return static_cast<std::uint8_t>(c) <= 0x20 || c == 0x7f;
}
constexpr bool is_alpha(char c) { return text::lower(c) >= 'a' && text::lower(c) <= 'z'; }

// Bytes that end the quick scan of a path: most paths have none but slashes.
constexpr std::array<bool, 256> kPathSpecial = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c <= 0x20; ++c) table[c] = true;
  table[0x7f] = table['%'] = table['/'] = true;
  return table;
}();

// reg-name of RFC 3986 §3.2.2 without percent-encoding: unreserved and sub-delims.
constexpr std::array<bool, 256> kHostBytes = [] {
  std::array<bool, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[c] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = true;
  for (int c = '0'; c <= '9'; ++c) table[c] = true;
  for (char c : std::string_view("-._~!$&'()*+,;=")) table[static_cast<std::uint8_t>(c)] = true;
  return table;
}();

// Decodes into out, which has room for raw.size() bytes. Yields the length.
Result<std::size_t> percent_decode(std::string_view raw, char* out) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (is_control_or_blank(c)) return malformed("control character in the path");
    if (c == '%') {
      const int high = i + 1 < raw.size() ? text::hex_value(raw[i + 1]) : -1;
      const int low = i + 2 < raw.size() ? text::hex_value(raw[i + 2]) : -1;
      if (high < 0 || low < 0) return malformed("'%' without two hex digits");
      c = static_cast<char>(high << 4 | low);
      if (c == '\0') return malformed("%00 in the path");
      i += 2;
    }
    out[length++] = c;
  }
  return length;
}

// Resolves dot segments and slashes within path[0, length), in place: what is written never
// overtakes what is read. Segments are kept each with the slash before it, so that the root is the
// empty text until the end.
Result<std::size_t> resolve_segments(char* path, std::size_t length, bool merge_slashes) {
  std::size_t written = 0;
  for (std::size_t at = 0; at < length;) {
    const std::string_view rest(path + at + 1, length - at - 1);
    const std::size_t slash = rest.find('/');
    const bool last = slash == std::string_view::npos;
    const std::string_view segment = rest.substr(0, last ? rest.size() : slash);
    const std::size_t segment_bytes = segment.size() + 1;
    bool keep = true;
    if (segment == ".") {
      keep = false;
    } else if (segment == "..") {
      if (written == 0) return malformed("\"..\" above the root");
      while (path[--written] != '/') {
      }
      keep = false;
    } else if (segment.empty() && merge_slashes && !last) {
      keep = false;
    }
    if (keep) {
      std::memmove(path + written, path + at, segment_bytes);
      written += segment_bytes;
    } else if (last) {
      path[written++] = '/';  // "/a/." and "/a/.." name directories.
    }
    at += segment_bytes;
  }
  return written;
}

// True if the path is its own normal form.
Result<bool> is_normal(std::string_view path, bool merge_slashes) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (!kPathSpecial[static_cast<std::uint8_t>(c)]) [[likely]]
      continue;
    if (c == '%') return false;
    if (c != '/') return malformed("control character in the path");
    if (i + 1 < path.size() && (path[i + 1] == '.' || (merge_slashes && path[i + 1] == '/')))
      return false;
  }
  return true;
}

// Takes ":port" off the end. Digits only, and none at all is allowed (RFC 3986 §3.2.3).
Result<std::string_view> cut_port(std::string_view text, std::size_t colon) {
  const std::string_view port = text.substr(colon + 1);
  if (!port.empty()) {
    const auto number = text::parse_decimal(port);
    if (!number || *number > 65535) return malformed("invalid port in the host");
  }
  return text.substr(0, colon);
}

Result<std::string_view> check_bracketed(std::string_view text) {
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos) return malformed("unclosed bracket in the host");
  const std::string_view address = text.substr(1, close - 1);
  for (char c : address) {  // No zone, and nothing that a parser of C strings would stop at.
    if (text::hex_value(c) < 0 && c != ':' && c != '.')
      return malformed("invalid IPv6 address in the host");
  }
  if (IpAddress::parse(address).family != IpAddress::Family::kV6)
    return malformed("invalid IPv6 address in the host");
  if (close + 1 == text.size()) return text;
  if (text[close + 1] != ':') return malformed("text after the address in the host");
  return cut_port(text, close + 1);
}

Result<std::string_view> check_reg_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon != std::string_view::npos) name = CORE_TRY(cut_port(name, colon));
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '%') {
      if (i + 2 >= name.size() || text::hex_value(name[i + 1]) < 0 ||
          text::hex_value(name[i + 2]) < 0) {
        return malformed("invalid percent-encoding in the host");
      }
      i += 2;
    } else if (!kHostBytes[static_cast<std::uint8_t>(name[i])]) {
      return malformed("invalid character in the host");
    } else if (name[i] == '.' && i > 0 && name[i - 1] == '.') {
      return malformed("empty label in the host");
    }
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty()) return malformed("empty host");
  return name;
}

using ByteSet = std::array<bool, 256>;

constexpr ByteSet byte_set(std::string_view bytes) {
  ByteSet set{};
  for (int c = 0; c <= 0x20; ++c) set[c] = true;
  for (int c = 0x7f; c <= 0xff; ++c) set[c] = true;
  for (char c : bytes) set[static_cast<std::uint8_t>(c)] = true;
  return set;
}
constexpr ByteSet kEscapedInUri = byte_set("\"#%<>?\\^`{|}");
constexpr ByteSet kEscapedInArgs = byte_set("\"#%&+;<>?\\^`{|}");
constexpr ByteSet kEscapedInLocation = byte_set("\"<>\\^`{|}");

std::string_view escape(Arena& arena, std::string_view text, const ByteSet& escaped) {
  std::size_t count = 0;
  for (char c : text) count += escaped[static_cast<std::uint8_t>(c)] ? 1 : 0;
  if (count == 0) return text;
  constexpr char kHex[] = "0123456789ABCDEF";
  const std::size_t length = text.size() + 2 * count;
  char* out = static_cast<char*>(arena.allocate(length + 1, 1));
  char* at = out;
  for (char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (escaped[byte]) {
      *at++ = '%';
      *at++ = kHex[byte >> 4];
      *at++ = kHex[byte & 15];
    } else {
      *at++ = c;
    }
  }
  *at = '\0';
  return {out, length};
}

}  // namespace

Result<Target> parse_target(Arena& arena, std::string_view text) {
  for (char c : text) {
    if (is_control_or_blank(c))
      return malformed("control character or blank in the request target");
  }
  Target target;
  target.uri = text;
  if (text == "*") {
    target.raw_path = text;
    return target;
  }
  if (text.empty()) return malformed("empty request target");
  if (text.front() != '/') {
    const std::size_t end = text.find("://");
    if (end == std::string_view::npos || end == 0 || !is_alpha(text.front()))
      return malformed("invalid request target");
    target.scheme = text.substr(0, end);
    for (char c : target.scheme) {
      if (!is_alpha(c) && !text::is_digit(c) && c != '+' && c != '-' && c != '.')
        return malformed("invalid scheme in the request target");
    }
    const std::string_view rest = text.substr(end + 3);
    const std::size_t path = std::min(rest.find_first_of("/?#"), rest.size());
    target.authority = rest.substr(0, path);
    if (target.authority.empty()) return malformed("empty authority in the request target");
    target.uri = rest.substr(path);
    if (target.uri.empty()) target.uri = "/";
    if (target.uri.front() != '/') target.uri = arena.concat("/", target.uri);
  }
  // A fragment is never sent by a well-behaved client; nginx leaves it out of path and query.
  const std::size_t path_end = std::min(target.uri.find_first_of("?#"), target.uri.size());
  target.raw_path = target.uri.substr(0, path_end);
  if (path_end < target.uri.size() && target.uri[path_end] == '?') {
    target.has_query = true;
    const std::string_view rest = target.uri.substr(path_end + 1);
    target.query = rest.substr(0, rest.find('#'));
  }
  return target;
}

Result<std::string_view> normalize_path(Arena& arena, std::string_view raw_path,
                                        bool merge_slashes) {
  if (raw_path.empty() || raw_path.front() != '/')
    return malformed("the path does not begin with '/'");
  if (CORE_TRY(is_normal(raw_path, merge_slashes))) return raw_path;
  char* path = static_cast<char*>(arena.allocate(raw_path.size() + 1, 1));
  const std::size_t decoded = CORE_TRY(percent_decode(raw_path, path));
  const std::size_t length = CORE_TRY(resolve_segments(path, decoded, merge_slashes));
  path[length] = '\0';
  return std::string_view(path, length);
}

Result<std::string_view> parse_host(Arena& arena, std::string_view text) {
  if (text.empty()) return malformed("empty host");
  const std::string_view name =
      CORE_TRY(text.front() == '[' ? check_bracketed(text) : check_reg_name(text));
  bool upper = false;
  for (char c : name) upper |= c >= 'A' && c <= 'Z';
  if (!upper) return name;
  char* out = static_cast<char*>(arena.allocate(name.size() + 1, 1));
  for (std::size_t i = 0; i < name.size(); ++i) out[i] = text::lower(name[i]);
  out[name.size()] = '\0';
  return std::string_view(out, name.size());
}

PathAndArgs split_args(std::string_view uri) {
  const std::size_t mark = uri.find('?');
  if (mark == std::string_view::npos) return {uri, {}};
  return {uri.substr(0, mark), uri.substr(mark + 1)};
}

std::string_view escape_uri(Arena& arena, std::string_view text) {
  return escape(arena, text, kEscapedInUri);
}
std::string_view escape_args(Arena& arena, std::string_view text) {
  return escape(arena, text, kEscapedInArgs);
}
std::string_view escape_location(Arena& arena, std::string_view text) {
  return escape(arena, text, kEscapedInLocation);
}

}  // namespace corehttpd::http
