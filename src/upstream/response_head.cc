#include "upstream/response_head.h"

#include <algorithm>
#include <cstring>

#include "corehttpd/base/text.h"

namespace corehttpd::upstream {
namespace {

constexpr std::size_t kFirstBytes = 2048;  // Most heads of PHP pages fit.
constexpr std::size_t kFieldsMax = 1000;

std::string_view without_cr(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

}  // namespace

ResponseHeadReader::State ResponseHeadReader::read(Arena& arena,
                                                   std::span<const std::byte>& input) {
  while (state_ == State::kReading && !input.empty()) {
    // Up to and with the next LF, so that nothing of the body is ever taken.
    const auto* lf = static_cast<const std::byte*>(std::memchr(input.data(), '\n', input.size()));
    const std::size_t now =
        lf == nullptr ? input.size() : static_cast<std::size_t>(lf - input.data()) + 1;
    if (used_ + now > bytes_max_) return state_ = State::kTooBig;
    reserve(arena, used_ + now);
    std::memcpy(text_ + used_, input.data(), now);
    used_ += now;
    input = input.subspan(now);
    if (lf == nullptr) break;
    const std::string_view line(text_ + line_begin_, used_ - line_begin_ - 1);
    line_begin_ = used_;
    if (without_cr(line).empty()) return state_ = parse(arena);
  }
  return state_;
}

void ResponseHeadReader::reserve(Arena& arena, std::size_t bytes) {
  if (bytes <= capacity_) return;
  const std::size_t wanted = std::max({bytes, capacity_ * 2, kFirstBytes});
  capacity_ = std::max(bytes, std::min(wanted, bytes_max_));
  char* fresh = static_cast<char*>(arena.allocate(capacity_, 1));
  if (used_ > 0) std::memcpy(fresh, text_, used_);
  text_ = fresh;
}

void ResponseHeadReader::restart() {
  head_ = OriginHead();
  status_seen_ = false;
  begin_ = used_;
  state_ = State::kReading;
}

// The whole head is in text_ and stays where it is.
ResponseHeadReader::State ResponseHeadReader::parse(Arena& arena) {
  std::string_view rest(text_ + begin_, used_ - begin_);
  if (status_line_ && rest.starts_with("HTTP/")) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = without_cr(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || !parse_status(text::trim(line.substr(blank)))) {
      reject("not a status line", line);
      return State::kInvalid;
    }
    status_seen_ = true;
  }
  for (;;) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = without_cr(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (line.empty()) break;
    if (!parse_line(arena, line)) return State::kInvalid;
  }
  if (!status_seen_ && head_.fields.find(http::FieldName::kLocation) != nullptr) head_.status = 302;
  return State::kComplete;
}

bool ResponseHeadReader::parse_line(Arena& arena, std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return reject("a folded line", line);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return reject("no colon", line);
  const std::string_view name = line.substr(0, colon);
  // A blank before the colon would be read differently by those who come after us (RFC 9112 §5.1).
  if (name.empty() || !http::is_token(name)) return reject("not a field name", line);
  const std::string_view value = text::trim(line.substr(colon + 1));
  if (!http::is_field_value(value)) return reject("a control character in the value", line);
  if (text::equals_ignore_case(name, "Status")) {
    if (status_seen_ && !status_line_) return reject("Status twice", line);
    if (!parse_status(value)) return reject("not a status", line);
    status_seen_ = true;
  }
  if (head_.fields.size() >= kFieldsMax) return reject("too many fields", line);
  return add_field(arena, name, value);
}

// "404 Not Found", "404".
bool ResponseHeadReader::parse_status(std::string_view value) {
  if (value.size() < 3 || (value.size() > 3 && value[3] != ' ')) return false;
  const auto status = text::parse_decimal(value.substr(0, 3));
  if (!status || *status < 100 || *status > 999) return false;
  head_.status = static_cast<std::uint16_t>(*status);
  head_.reason = value.size() > 4 ? text::trim(value.substr(4)) : std::string_view();
  return true;
}

bool ResponseHeadReader::add_field(Arena& arena, std::string_view name, std::string_view value) {
  const http::FieldName id = http::parse_field_name(name);
  if (id == http::FieldName::kContentLength) {
    const auto length = text::parse_decimal(value);
    if (!length) return reject("not a length", value);
    // Two lengths are two opinions about where the response ends.
    if (head_.content_length) return reject("Content-Length twice", value);
    head_.content_length = length;
  }
  head_.fields.add(arena, id, name, value);
  return true;
}

bool ResponseHeadReader::reject(const char* problem, std::string_view line) {
  problem_ = problem;
  offending_line_ = line;
  return false;
}

}  // namespace corehttpd::upstream
