// Response heads of HTTP/1 as bytes, fields in nginx's order. One writer per worker: it keeps what
// is the same in all heads of a second.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/message.h"

namespace corehttpd::h1 {

struct HeadFraming {
  bool chunked =
      false;  // Transfer-Encoding: chunked; else head.content_length goes out if it is known.
  bool keep_alive = false;
  Milliseconds keep_alive_ms =
      -1;  // "Keep-Alive: timeout=N" in whole seconds; -1: no such field. Only with keep_alive.
};

class HeadWriter {
 public:
  // clock must outlive the writer.
  explicit HeadWriter(const Clock& clock) : clock_(clock) {}

  // At least the bytes that write() needs for this head.
  static std::size_t bound(const http::ResponseHead& head);
  // Writes the head, empty line included; returns the end. to has room for bound(head) bytes.
  // Fields whose name is no token or whose value holds CR, LF or NUL are left out: whoever let them
  // through, they must not become two.
  char* write(char* to, const http::ResponseHead& head, const HeadFraming& framing,
              http::CoreSettings::Tokens tokens);

  // An interim response (RFC 9110 §15.2): status line and fields alone.
  static std::size_t bound(std::uint16_t status, const http::FieldList& fields);
  static char* write_interim(char* to, std::uint16_t status, const http::FieldList& fields);
  // A trailer section, empty line included, within bound(0, fields).
  static char* write_trailers(char* to, const http::FieldList& fields);

 private:
  // "Server: …\r\nDate: …\r\n" of this second.
  struct Stamp {
    std::int64_t second = -1;
    std::size_t length = 0;
    std::array<char, 96> text;
  };
  struct DateText {
    std::int64_t second = -1;
    std::array<char, 29> text;
  };
  static constexpr std::size_t kDates = 64;  // Power of two.

  std::string_view stamp(http::CoreSettings::Tokens tokens);
  std::string_view last_modified(std::int64_t second);

  const Clock& clock_;
  std::array<Stamp, 3> stamps_;  // By Tokens.
  // Formatted Last-Modified dates: few files make up most of the requests, and gmtime_r() costs as
  // much as the rest of the head.
  std::array<DateText, kDates> dates_;
};

}  // namespace corehttpd::h1
