// Request and response heads, neutral of the protocol. Views point into the exchange's arena.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "corehttpd/http/fields.h"

namespace corehttpd::http {

// Only for $server_protocol, logs and CGI's SERVER_PROTOCOL. Handlers never branch on it.
enum class Version : std::uint8_t { k09, k10, k11, k2, k3 };
std::string_view to_string(Version version);  // "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"

struct RequestHead {
  Method method = Method::kUnknown;
  Version version = Version::k11;
  bool body_expected =
      false;  // A body follows: a length above 0, chunked, or a stream not yet ended.
  bool expects_continue =
      false;  // "Expect: 100-continue" is the transport's business (Transport::grant).
  bool unknown_expectation = false;  // Expect asks for something else: 417 (RFC 9110 §10.1.1).
  std::string_view method_text;
  std::string_view
      target;  // As received: $request_uri ("/a%20b?x", of an absolute-form its path and query).
  std::string_view raw_path;   // target up to '?', percent-encoded.
  std::string_view query;      // After '?', without it; $args starts as this.
  bool has_query = false;      // There was a '?'.
  std::string_view authority;  // Host field, :authority or the absolute-form's, as received; may be
                               // empty on HTTP/1.0.
  std::string_view scheme = "http";
  std::string_view request_line;  // $request: as received on h1, composed on h2 and h3.
  std::optional<std::uint64_t> content_length;
  FieldList fields;              // All, including Host; pseudo-fields are not among them.
  std::uint64_t head_bytes = 0;  // Line and fields as received, for $request_length.
};

struct ResponseHead {
  std::uint16_t status = 0;
  std::string_view reason;  // Of a backend's Status line; empty: the standard one.
  std::optional<std::uint64_t> content_length;
  std::string_view content_type;    // Empty: no Content-Type. May already hold "; charset=".
  std::string_view charset;         // Added to content_type by the charset transform.
  std::int64_t last_modified = -1;  // Unix seconds; -1: none.
  std::string_view etag;            // With quotes; empty: none.
  std::string_view
      location;  // Absolute or absolute-path; the transport sends what Exchange made of it.
  bool accept_ranges = false;  // The source can serve ranges (range transform adds Accept-Ranges).
  bool vary_accept_encoding = false;  // gzip_vary.
  bool close_connection = false;      // h1: end the connection after this; h2, h3: nothing.
  FieldList fields;  // Everything else. Never Connection, Keep-Alive, Transfer-Encoding,
                     // Content-Length, Date, Server unless a backend's own Date or Server is passed
                     // on, which then replaces ours.
};

// "Not Found"; empty for an unknown status.
std::string_view reason_phrase(std::uint16_t status);
// True for 1xx, 204, 304: no body whatever the fields say (RFC 9110 §6.4.1).
constexpr bool never_has_body(std::uint16_t status) {
  return (status >= 100 && status < 200) || status == 204 || status == 304;
}

}  // namespace corehttpd::http
