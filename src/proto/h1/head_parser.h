// Reading a request head of HTTP/1 (RFC 9112 §2–6), in two passes over few bytes: HeadScanner finds
// where the head ends, resuming where it stopped as more arrives; parse_head() then reads the
// complete head once, in place. Both are strict: what could be read in two ways by two parties is
// refused (request smuggling), and nothing is repaired.
//
// One leniency is nginx's and the RFC's own (§2.2): a line of the head may end with LF alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/message.h"

namespace corehttpd::h1 {

// CR and LF that may stand before a request line (§2.2: at least one empty line should be ignored).
inline constexpr std::size_t kLeadingBytesMax = 16;
// nginx's internal status for a field or a head that is too large; the error page's status line
// says 400.
inline constexpr std::uint16_t kFieldTooLarge = 494;

struct HeadLimits {
  std::size_t line_bytes;   // One line without its end: a client_header_buffer_size or
                            // large_client_header_buffers' size, whichever is more.
  std::size_t total_bytes;  // The whole head: client_header_buffer_size and all large buffers.
  std::size_t fields_max;   // max_headers; ignored ones count.
  bool ignore_invalid_headers;
  bool underscores_in_headers;
  static HeadLimits from(const http::CoreSettings& settings);
};

// Finds the end of a head in input that grows. Keeps two positions between calls, so that no
// complete line is scanned twice.
class HeadScanner {
 public:
  enum class Verdict : std::uint8_t {
    kIncomplete,  // More input is needed.
    kComplete,    // begin() and end() enclose the head, empty line included.
    kRefused,     // status() says how to answer.
  };
  // input: everything received from the first byte after the previous request on; the same bytes as
  // last time, and more.
  Verdict scan(std::string_view input, const HeadLimits& limits);
  // The first byte of the request line, after empty lines.
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return line_; }
  // 400, 414 or kFieldTooLarge.
  std::uint16_t status() const { return status_; }
  void reset() { *this = HeadScanner(); }

 private:
  bool skip_empty_lines(std::string_view input);
  Verdict refuse(std::uint16_t status);

  std::uint32_t begin_ = 0;
  std::uint32_t line_ = 0;  // Start of the line that is not complete yet.
  std::uint16_t status_ = 0;
};

// For an incomplete head: 0, or the status that its beginning deserves already, so that a client
// that speaks another protocol (TLS, HTTP/0.9) gets its answer at once rather than at the end of
// client_header_timeout. text begins with the request line.
std::uint16_t judge_beginning(std::string_view text);

enum class BodyFraming : std::uint8_t { kNone, kLength, kChunked };

struct ParsedHead {
  std::uint16_t status =
      0;  // 0: well-formed; else the status to answer with, and no later request is to be read.
  const char* problem = "";  // What was wrong, in nginx's words, for the error log (level info).
  BodyFraming framing = BodyFraming::kNone;
  bool keep_alive = false;         // What version and Connection fields ask for (§9.3).
  std::uint32_t ignored = 0;       // Fields left out for their names (ignore_invalid_headers).
  std::string_view first_ignored;  // The name of the first of them.
};

// Reads a complete head: from its first byte to the end of its empty line. Everything in request
// points into head, which must live as long as the arena. request is filled as far as reading got
// when status is not 0.
ParsedHead parse_head(std::string_view head, const HeadLimits& limits, Arena& arena,
                      http::RequestHead& request);

}  // namespace corehttpd::h1
