// Directives of nginx's http core that protocols and the exchange need (client_*, keepalive_*,
// send_*, limits, error_log…).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/log.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::http {

struct CoreSettings {
  // Reading heads: of the endpoint's default site until the host is known.
  Milliseconds client_header_timeout = 60'000;
  std::uint64_t client_header_buffer_size = 1024;
  std::uint32_t large_header_buffers_number = 4;
  std::uint64_t large_header_buffers_size = 8192;  // One line may be this long (414 for the request
                                                   // line, 400 for a field, as nginx has it).
  std::uint32_t max_headers = 1000;                // Fields of one head.
  bool ignore_invalid_headers = true;
  bool underscores_in_headers = false;
  bool merge_slashes = true;
  // Bodies.
  Milliseconds client_body_timeout = 60'000;
  std::uint64_t client_body_buffer_size = 16 * 1024;
  std::uint64_t client_max_body_size = 1024 * 1024;  // 0: no limit.
  std::string_view client_body_temp_path;  // A directory, absolute; empty: the server's default.
  // Digits of a kept file's number that name each level of subdirectories; 0: no further level.
  std::array<std::uint8_t, 3> client_body_temp_levels = {};
  enum class BodyInFile : std::uint8_t {
    kOff,
    kOn,
    kClean
  } client_body_in_file_only = BodyInFile::kOff;
  bool client_body_in_single_buffer = false;
  // Connections.
  Milliseconds keepalive_timeout = 75'000;  // 0: no keep-alive.
  Milliseconds keepalive_header_timeout =
      -1;  // Second argument: "Keep-Alive: timeout=N"; -1: not sent.
  std::uint64_t keepalive_requests = 1000;
  Milliseconds keepalive_time = 3'600'000;
  // While draining an idle connection is kept at least this long, if keepalive_timeout allows.
  Milliseconds keepalive_min_timeout = 0;
  // Browsers that are not kept alive: bits.
  enum KeepaliveDisable : std::uint8_t { kDisableMsie6 = 1, kDisableSafari = 2 };
  std::uint8_t keepalive_disable = kDisableMsie6;
  Milliseconds send_timeout = 60'000;
  enum class Lingering : std::uint8_t { kOff, kOn, kAlways } lingering_close = Lingering::kOn;
  Milliseconds lingering_time = 30'000;
  Milliseconds lingering_timeout = 5'000;
  bool reset_timedout_connection = false;
  bool tcp_nodelay = true;
  bool tcp_nopush = true;
  bool sendfile = true;
  bool chunked_transfer_encoding = true;
  // Responses.
  enum class Tokens : std::uint8_t { kOff, kOn, kBuild } server_tokens = Tokens::kOn;
  bool absolute_redirect = true;
  bool port_in_redirect = true;
  bool server_name_in_redirect = false;
  bool etag = true;
  enum class IfModifiedSince : std::uint8_t {
    kOff,
    kExact,
    kBefore
  } if_modified_since = IfModifiedSince::kExact;
  std::uint64_t max_ranges = UINT64_MAX;
  bool internal = false;
  // Set by the setters of fastcgi_pass and its like (nginx's auto_redirect): "/dir" is answered
  // with a redirect to "/dir/" when this location is "/dir/". route clears it in every new
  // location.
  bool auto_redirect = false;
  // Logs.
  const LogTarget* error_log = nullptr;  // nullptr: the process's.
  bool log_not_found = true;
  bool log_subrequest = false;
};

// The module whose rows these are.
const conf::Module& core_module();

}  // namespace corehttpd::http
