// Request targets, hosts and percent-encoding (RFC 3986, RFC 9112 §3.2), with nginx's meaning of a
// normalized URI. Every error has Code::kMalformed, Party::kClient and the status to answer (400)
// as detail.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/error.h"

namespace corehttpd::http {

struct Target {
  std::string_view
      uri;  // What $request_uri is: as received; of an absolute-form its path and query.
  std::string_view raw_path;  // Up to '?' or '#', percent-encoded. "*" for the asterisk-form, which
                              // normalize_path() refuses as nginx does.
  std::string_view query;     // Between '?' and '#'.
  bool has_query = false;
  std::string_view
      authority;            // Of an absolute-form, where it overrides the Host field; else empty.
  std::string_view scheme;  // Of an absolute-form, as received; else empty.
};

// Splits the origin-, absolute- or asterisk-form. Refuses blanks and control characters; the
// authority-form (CONNECT) is the caller's to refuse before. Views point into text, but for an
// absolute-form without a path, whose uri is made in the arena.
Result<Target> parse_target(Arena& arena, std::string_view text);

// A percent-encoded path made $uri as nginx makes it: decoded, "." and ".." resolved, runs of
// slashes merged if asked. Refuses what does not begin with '/', a '%' without two hex digits, %00,
// raw control characters and blanks, and ".." above the root. The result begins with
// '/', holds no NUL and no dot segment; it is raw_path itself when there was nothing to change,
// else lives in the arena.
Result<std::string_view> normalize_path(Arena& arena, std::string_view raw_path,
                                        bool merge_slashes);

// Host field, :authority or an absolute-form's authority: lower case, without port and without the
// dot of a fully qualified name. A reg-name, an IPv4 address or a bracketed IPv6 address (kept in
// its brackets), and a port of digits up to 65535, which may be empty. Refuses userinfo, empty
// names and labels, and whatever is in no URI. The result is in the arena unless text already had
// that form.
Result<std::string_view> parse_host(Arena& arena, std::string_view text);

// "/path?args" as configuration gives it ("error_page 404 /e?x", auth_request): path and what
// follows the first '?'.
struct PathAndArgs {
  std::string_view path;
  std::string_view args;
};
PathAndArgs split_args(std::string_view uri);

// Percent-encoding for an output; text itself when nothing needs it, else in the arena. As nginx
// escapes: a decoded path to be put into a URI (also escapes '%', '?' and '#');
std::string_view escape_uri(Arena& arena, std::string_view text);
// text to become one value within a query (also escapes '&', '+' and ';');
std::string_view escape_args(Arena& arena, std::string_view text);
// a URI that somebody composed (return, a backend's Location), of which only what no field may
// carry is escaped: control characters, blanks, quotes and bytes above 0x7e. "%0d%0a" decoded into
// $uri and sent back thus stays one field.
std::string_view escape_location(Arena& arena, std::string_view text);

}  // namespace corehttpd::http
