// Reads the head of an origin's response: header lines ended by an empty one (CGI, RFC 3875 §6.3).
// The bytes are collected in the exchange's arena, so that fields are views without a further copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/fields.h"

namespace corehttpd::upstream {

struct OriginHead {
  std::uint16_t status = 200;
  std::string_view reason;  // Of the Status line; empty: the standard one.
  std::optional<std::uint64_t> content_length;
  http::FieldList fields;  // All but Status, in the origin's order.
};

class ResponseHeadReader {
 public:
  enum class State : std::uint8_t {
    kReading,   // The empty line has not come yet.
    kComplete,  // head() is filled in.
    kTooBig,    // More than bytes_max bytes and no end.
    kInvalid,   // Not a head; problem() and offending_line() say what was wrong.
  };
  // bytes_max: fastcgi_buffer_size; above 0.
  // status_line: the head may begin with "HTTP/1.1 404 Not Found".
  explicit ResponseHeadReader(std::size_t bytes_max, bool status_line = false)
      : bytes_max_(bytes_max), status_line_(status_line) {}
  // Takes bytes up to the end of the head from the front of input; the rest is body.
  State read(Arena& arena, std::span<const std::byte>& input);
  State state() const { return state_; }
  // Nothing was received yet.
  bool empty() const { return used_ == 0; }
  const OriginHead& head() const { return head_; }
  // "no colon", as a literal; and the line it was found in, as received.
  std::string_view problem() const { return problem_; }
  std::string_view offending_line() const { return offending_line_; }
  // After an informational head (103) was taken: begins the next one. Its bytes count as well, or
  // an origin could send them without end.
  void restart();

 private:
  State parse(Arena& arena);
  bool parse_line(Arena& arena, std::string_view line);
  bool parse_status(std::string_view value);
  bool add_field(Arena& arena, std::string_view name, std::string_view value);
  bool reject(const char* problem, std::string_view line);
  void reserve(Arena& arena, std::size_t bytes);

  std::size_t bytes_max_;
  char* text_ = nullptr;  // In the arena.
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t begin_ = 0;       // Where the current head starts in text_.
  std::size_t line_begin_ = 0;  // Of the line being received.
  bool status_line_ = false;
  bool status_seen_ = false;
  State state_ = State::kReading;
  std::string_view problem_;
  std::string_view offending_line_;
  OriginHead head_;
};

}  // namespace corehttpd::upstream
