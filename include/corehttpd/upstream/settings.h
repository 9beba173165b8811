// What fastcgi_*, scgi_*, uwsgi_* and proxy_* have in common, with its rows: one table of suffixes
// that a compile-time template turns into each prefix's directives. A module puts GatewaySettings
// first into its own settings and merges the rows with its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::upstream {

// Bits of next_upstream.
enum NextUpstream : std::uint32_t {
  kNextError = 1u << 0,
  kNextTimeout = 1u << 1,
  kNextInvalidHeader = 1u << 2,
  kNext500 = 1u << 3,
  kNext502 = 1u << 4,
  kNext503 = 1u << 5,
  kNext504 = 1u << 6,
  kNext403 = 1u << 7,
  kNext404 = 1u << 8,
  kNext429 = 1u << 9,
  kNextNonIdempotent = 1u << 10,
  kNextOff = 1u << 11,
};

// Bits of ignore_headers: fields of a response that are not acted upon.
enum IgnoredHeader : std::uint32_t {
  kIgnoreAccelRedirect = 1u << 0,
  kIgnoreAccelExpires = 1u << 1,
  kIgnoreAccelLimitRate = 1u << 2,
  kIgnoreAccelBuffering = 1u << 3,
  kIgnoreAccelCharset = 1u << 4,
  kIgnoreExpires = 1u << 5,
  kIgnoreCacheControl = 1u << 6,
  kIgnoreSetCookie = 1u << 7,
  kIgnoreVary = 1u << 8,
};

// Trivially copyable; views and spans live in the configuration.
struct GatewaySettings {
  bool buffering = true;
  bool request_buffering = true;
  bool ignore_client_abort = false;
  bool intercept_errors = false;
  bool pass_request_body = true;
  bool pass_request_headers = true;
  bool socket_keepalive = false;
  bool x_sendfile = false;
  std::span<const std::string_view> x_sendfile_folders;  // Besides the document root.
  // Bytes that a response's head may take; of an unbuffered response also what is held of its body.
  // More than nginx's 4k|8k: 40 cookies of half a kilobyte must fit.
  std::uint64_t buffer_size = 32 * 1024;
  // Memory for one response's body before it goes to a temporary file: their product.
  std::uint64_t buffers_number = 16;
  std::uint64_t buffers_size = 16 * 1024;
  std::uint64_t max_temp_file_size = 1024 * 1024 * 1024;  // 0: no temporary files.
  std::string_view temp_path;  // A directory; empty: the server's default.
  Milliseconds connect_timeout = 60'000;
  Milliseconds send_timeout = 60'000;  // Between two writes.
  Milliseconds read_timeout = 60'000;  // Between two reads.
  std::uint32_t next_upstream = kNextError | kNextTimeout;
  std::uint32_t next_upstream_tries = 0;   // 0: as many as there are servers.
  Milliseconds next_upstream_timeout = 0;  // 0: no limit.
  std::uint32_t ignore_headers = 0;
  // Requests of a worker that may wait for a backend of known capacity, and how long.
  std::uint64_t queue_max = 4096;
  Milliseconds queue_timeout = 60'000;
  // bind: the local address of connections, if it is known at start; else what yields it. Neither:
  // the system chooses. transparent: it need not be one of this machine's.
  const io::Address* bind = nullptr;
  expr::Program bind_program;
  bool bind_transparent = false;
  bool force_ranges = false;
  expr::Program limit_rate;  // Bytes per second at which a buffered response is read.
  std::span<const std::string_view> hide_headers;
  std::span<const std::string_view> pass_headers;
};

// "192.0.2.1", "192.0.2.1:5000", "[2001:db8::1]".
bool parse_bind_address(std::string_view text, io::Address& out);

// The rows without their prefix ("buffer_size"), sorted. What nothing handles yet (the cache) is in
// conf's table of what comes later.
namespace detail {

bool set_bind(const conf::Setting& s);
bool set_buffers(const conf::Setting& s);
bool set_limit_rate(const conf::Setting& s);
bool set_queue_of_location(const conf::Setting& s);
// "number [timeout=time]": requests that may wait, from min, and how long. Errors are recorded.
bool read_queue(const conf::Setting& s, std::uint64_t min, std::uint64_t& requests_max,
                Milliseconds& timeout);
bool set_buffer_size(const conf::Setting& s);
bool set_next_upstream(const conf::Setting& s);
bool set_ignore_headers(const conf::Setting& s);
bool set_hide_header(const conf::Setting& s);
bool set_x_sendfile(const conf::Setting& s);
bool set_pass_header(const conf::Setting& s);
bool set_temp_path(const conf::Setting& s);
bool set_store(const conf::Setting& s);

using conf::Directive;
using conf::Stage;
using G = GatewaySettings;
inline constexpr conf::Context kHere = conf::kHttpServerLocation;

inline constexpr Directive kRows[] = {
    {.name = "bind",
     .contexts = kHere,
     .arity = conf::between(1, 2),
     .syntax = "address [transparent] | off",
     .set = set_bind,
     .doc = "The local address of connections to servers, with a port or without; it may have "
            "variables. transparent: also one that is not this machine's, which takes "
            "CAP_NET_RAW."},
    {.name = "buffer_size",
     .contexts = kHere,
     .syntax = "size",
     .set = set_buffer_size,
     .default_value = "32k",
     .doc = "The most bytes that the head of a response may take; more is answered with 502. It "
            "counts the head alone, not what is said on the error stream meanwhile."},
    {.name = "buffering",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::buffering>,
     .default_value = "on",
     .doc = "Whether the response is read as fast as the server sends it, into memory and then a "
            "temporary file, so that a slow client does not hold the server. X-Accel-Buffering in "
            "the response overrides it."},
    {.name = "buffers",
     .contexts = kHere,
     .arity = conf::exactly(2),
     .syntax = "number size",
     .set = set_buffers,
     .default_value = "16 16k",
     .doc = "How much of a response's body is kept in memory: number times size."},
    {.name = "busy_buffers_size",
     .contexts = kHere,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = Stage::kNoMeaning,
     .doc = "Clients pull what they have room for, so nothing has to be set aside for them."},
    {.name = "connect_timeout",
     .contexts = kHere,
     .syntax = "time",
     .set = conf::set_time<&G::connect_timeout>,
     .default_value = "60s",
     .doc = "How long making a connection to the server may take, waiting for a place in the "
            "backlog of its unix socket included."},
    {.name = "force_ranges",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::force_ranges>,
     .default_value = "off",
     .doc = "Whether parts of a response may be asked for whatever its Accept-Ranges says."},
    {.name = "hide_header",
     .contexts = kHere,
     .syntax = "field",
     .set = set_hide_header,
     .inherit = conf::Inherit::kList,
     .doc =
         "A field of responses that is not passed to the client, besides Status and X-Accel-..."},
    {.name = "ignore_client_abort",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::ignore_client_abort>,
     .default_value = "off",
     .doc = "Whether the request is carried through when the client has gone."},
    {.name = "ignore_headers",
     .contexts = kHere,
     .arity = conf::at_least(1),
     .syntax = "field ...",
     .set = set_ignore_headers,
     .doc = "Fields of responses that are not acted upon: X-Accel-Redirect, X-Accel-Expires, "
            "X-Accel-Limit-Rate, X-Accel-Buffering, X-Accel-Charset, Expires, Cache-Control, "
            "Set-Cookie, Vary."},
    {.name = "intercept_errors",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::intercept_errors>,
     .default_value = "off",
     .doc =
         "Whether responses of status 300 and above for which there is an error_page are replaced "
         "by it."},
    {.name = "limit_rate",
     .contexts = kHere,
     .syntax = "rate",
     .set = set_limit_rate,
     .default_value = "0",
     .doc = "Bytes per second at which a response is read from its server, each by itself; 0: as "
            "they come. It may have variables. Only with buffering."},
    {.name = "max_temp_file_size",
     .contexts = kHere,
     .syntax = "size",
     .set = conf::set_size<&G::max_temp_file_size>,
     .default_value = "1024m",
     .doc =
         "The most of one response that a temporary file holds for a slow client; 0: none. Beyond "
         "it the server has to wait for the client."},
    {.name = "next_upstream",
     .contexts = kHere,
     .arity = conf::at_least(1),
     .syntax = "error | timeout | invalid_header | http_500 | http_502 | http_503 | http_504 | "
               "http_403 | http_404 | http_429 | non_idempotent | off ...",
     .set = set_next_upstream,
     .default_value = "error timeout",
     .doc =
         "In which cases a request is passed to the next server. One that has reached a server is "
         "sent once more at most, and only if its method is idempotent or non_idempotent is "
         "given."},
    {.name = "next_upstream_timeout",
     .contexts = kHere,
     .syntax = "time",
     .set = conf::set_time<&G::next_upstream_timeout>,
     .default_value = "0",
     .doc = "The time during which a request may be passed to a next server; 0: no limit."},
    {.name = "next_upstream_tries",
     .contexts = kHere,
     .syntax = "number",
     .set = conf::set_number<&G::next_upstream_tries>,
     .default_value = "0",
     .doc = "How many servers are tried; 0: all."},
    {.name = "pass_header",
     .contexts = kHere,
     .syntax = "field",
     .set = set_pass_header,
     .inherit = conf::Inherit::kList,
     .doc = "A field of responses that is passed to the client although it is hidden by default."},
    {.name = "pass_request_body",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::pass_request_body>,
     .default_value = "on",
     .doc = "Whether the request's body is passed to the server."},
    {.name = "pass_request_headers",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::pass_request_headers>,
     .default_value = "on",
     .doc = "Whether the request's fields are passed to the server."},
    {.name = "queue",
     .contexts = kHere,
     .arity = conf::between(1, 2),
     .syntax = "number [timeout=time]",
     .set = set_queue_of_location,
     .doc = "How many requests of each worker may wait for a server whose capacity is known "
            "(fastcgi_pool_files), 4096, and for how long, 60s; further ones, and those that have "
            "waited so long, are answered with 503 and Retry-After."},
    {.name = "read_timeout",
     .contexts = kHere,
     .syntax = "time",
     .set = conf::set_time<&G::read_timeout>,
     .default_value = "60s",
     .doc = "How long the server may be silent between two reads."},
    {.name = "request_buffering",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::request_buffering>,
     .default_value = "on",
     .doc = "Whether the request's body is read completely before a server is asked. A body of "
            "unknown length always is towards SCGI servers and php-fpm pools whose files are known "
            "(fastcgi_pool_files), which have to be told it."},
    {.name = "send_lowat",
     .contexts = kHere,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = Stage::kNoMeaning,
     .doc = "Linux has no such setting for sending."},
    {.name = "send_timeout",
     .contexts = kHere,
     .syntax = "time",
     .set = conf::set_time<&G::send_timeout>,
     .default_value = "60s",
     .doc = "How long the server may take nothing between two writes."},
    {.name = "socket_keepalive",
     .contexts = kHere,
     .syntax = "on | off",
     .set = conf::set_flag<&G::socket_keepalive>,
     .default_value = "off",
     .doc = "Whether connections to the server have SO_KEEPALIVE."},
    {.name = "store",
     .contexts = kHere,
     .syntax = "on | off | string",
     .set = set_store,
     .doc = "Only off: files that a backend's answers create under the document root are not "
            "written by this server; use the cache instead."},
    {.name = "store_access",
     .contexts = kHere,
     .arity = conf::at_least(1),
     .syntax = "users:permissions ...",
     .set = conf::set_nothing,
     .stage = Stage::kNoMeaning,
     .doc = "Nothing is stored."},
    {.name = "temp_file_write_size",
     .contexts = kHere,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = Stage::kNoMeaning,
     .doc = "Temporary files are written block by block, off the loop."},
    {.name = "temp_path",
     .contexts = kHere,
     .arity = conf::between(1, 4),
     .syntax = "path [level1 [level2 [level3]]]",
     .set = set_temp_path,
     .doc = "The directory of temporary files. They have no names, so levels have no meaning."},
    {.name = "x_sendfile",
     .contexts = kHere,
     .arity = conf::at_least(1),
     .syntax = "on | off | path ...",
     .set = set_x_sendfile,
     .default_value = "off",
     .doc =
         "Whether a response's X-Sendfile, an absolute path, has that file sent in its place: on "
         "within the document root, with paths below those as well."},
};

}  // namespace detail

// Text as a template argument.
template <std::size_t N>
struct FixedText {
  char text[N]{};
  consteval FixedText(const char (&from)[N]) { std::copy_n(from, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

// The rows of a prefix ("fastcgi_") merged with the module's own, sorted by name, made by the
// compiler: prefixed_rows<"fastcgi_", kOwnRows>.
template <FixedText Prefix, const auto& Own>
struct PrefixedRows {
  static constexpr std::size_t kShared = std::size(detail::kRows);
  static constexpr std::size_t kNameMax = 48;
  static constexpr auto kNames = [] {
    std::array<std::array<char, kNameMax>, kShared> names{};
    for (std::size_t i = 0; i < kShared; ++i) {
      char* end = std::ranges::copy(Prefix.view(), names[i].data()).out;
      std::ranges::copy(detail::kRows[i].name, end);
    }
    return names;
  }();
  static constexpr auto kRows = [] {
    std::array<conf::Directive, kShared + std::size(Own)> rows{};
    for (std::size_t i = 0; i < kShared; ++i) {
      rows[i] = detail::kRows[i];
      rows[i].name = {kNames[i].data(), Prefix.view().size() + detail::kRows[i].name.size()};
    }
    std::ranges::copy(Own, rows.begin() + kShared);
    std::ranges::sort(rows, {}, &conf::Directive::name);
    return rows;
  }();
};
template <FixedText Prefix, const auto& Own>
inline constexpr std::span<const conf::Directive> prefixed_rows = PrefixedRows<Prefix, Own>::kRows;

}  // namespace corehttpd::upstream
