#include "proto/h1/head_parser.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "corehttpd/base/text.h"
#include "corehttpd/http/target.h"
#include "proto/h1/byte_scan.h"

namespace corehttpd::h1 {
namespace {

using http::FieldName;

// The line's end at p: how many bytes it has (1: LF, 2: CRLF), 0 when there is none: a bare CR or
// another control character.
std::size_t line_end_at(const char* p, const char* end) {
  if (p == end) return 0;
  if (*p == '\n') return 1;
  return *p == '\r' && end - p >= 2 && p[1] == '\n' ? 2 : 0;
}

// The digit at p, moved past it; -1 when there is none. A version's numbers have one (RFC 9112
// §2.3).
int version_digit(const char*& p, const char* end) {
  return p != end && text::is_digit(*p) ? *p++ - '0' : -1;
}

struct RequestLine {
  std::uint16_t status = 0;
  const char* problem = "";
  std::string_view method, target;
  int minor = 0;
};

// line: without its end. Every byte of it is accounted for: one SP between the three parts, nothing
// after the version.
RequestLine split_request_line(std::string_view line) {
  RequestLine out;
  const char* p = line.data();
  const char* const end = p + line.size();
  const auto refuse = [&out](std::uint16_t status, const char* problem) {
    out.status = status;
    out.problem = problem;
    return out;
  };
  while (p != end && is_token_byte(*p)) ++p;
  out.method = line.substr(0, static_cast<std::size_t>(p - line.data()));
  if (out.method.empty() || p == end || *p != ' ') {
    return refuse(400, "client sent invalid method while reading client request line");
  }
  const char* target = ++p;
  p = find_target_stop(p, end);
  out.target = {target, static_cast<std::size_t>(p - target)};
  // Without a version it would be HTTP/0.9, whose answers have no head; nobody speaks it but
  // scanners.
  if (out.target.empty() || p == end || *p != ' ') {
    return refuse(400, "client sent invalid request while reading client request line");
  }
  ++p;
  constexpr std::string_view kName = "HTTP/";
  const bool named = static_cast<std::size_t>(end - p) > kName.size() &&
                     std::memcmp(p, kName.data(), kName.size()) == 0;
  if (!named) return refuse(400, "client sent invalid request while reading client request line");
  p += kName.size();
  const int major = version_digit(p, end);
  const bool dot = p != end && *p++ == '.';
  out.minor = version_digit(p, end);
  if (major < 1 || !dot || out.minor < 0 || p != end) {
    return refuse(400, "client sent invalid version while reading client request line");
  }
  if (major > 1)
    return refuse(505, "client sent unsupported version while reading client request line");
  return out;
}

class Parser {
 public:
  Parser(std::string_view head, const HeadLimits& limits, Arena& arena, http::RequestHead& request)
      : at_(head.data()),
        end_(head.data() + head.size()),
        limits_(limits),
        arena_(arena),
        request_(request) {}

  ParsedHead run() {
    request_.head_bytes = static_cast<std::uint64_t>(end_ - at_);
    if (read_request_line() && read_fields() && judge_host() && judge_framing())
      judge_persistence();
    return out_;
  }

 private:
  bool refuse(std::uint16_t status, const char* problem) {
    out_.status = status;
    out_.problem = problem;
    return false;
  }
  bool read_request_line();
  bool read_fields();
  bool read_field();
  bool read_name(std::string_view& name, bool& ignored);
  bool keep_field(std::string_view name, std::string_view value);
  bool read_length(std::string_view value);
  bool judge_host();
  bool judge_framing();
  void judge_persistence();

  const char* at_;
  const char* const end_;
  const HeadLimits& limits_;
  Arena& arena_;
  http::RequestHead& request_;
  ParsedHead out_;
  std::string_view transfer_encoding_;
  std::size_t field_count_ = 0;
  int host_fields_ = 0;
  int transfer_encoding_fields_ = 0;
  bool absolute_form_ = false;
  bool close_ = false;
  bool keep_alive_ = false;
};

bool Parser::read_request_line() {
  const char* stop = find_field_stop(at_, end_);
  const std::size_t ending = line_end_at(stop, end_);
  request_.request_line = {at_, static_cast<std::size_t>(stop - at_)};
  if (ending == 0) {
    // The log shows the whole line, whatever is in it: a TLS hello on a cleartext port, mostly.
    const char* newline =
        static_cast<const char*>(std::memchr(stop, '\n', static_cast<std::size_t>(end_ - stop)));
    if (newline == nullptr) newline = end_;
    if (newline != stop && newline[-1] == '\r') --newline;
    request_.request_line = {at_, static_cast<std::size_t>(newline - at_)};
  }
  // Also of a line that is refused: what HEAD is answered has no body.
  const RequestLine line = split_request_line(request_.request_line);
  request_.method_text = line.method;
  request_.method = http::parse_method(line.method);
  if (ending == 0)
    return refuse(400, "client sent invalid request while reading client request line");
  at_ = stop + ending;
  request_.target = request_.raw_path = line.target;
  if (line.status != 0) return refuse(line.status, line.problem);
  // A later minor version promises to be understood as 1.1 (RFC 9110 §2.5).
  request_.version = line.minor == 0 ? http::Version::k10 : http::Version::k11;
  // Its target is an authority alone; a forward proxy is what we are not.
  if (request_.method == http::Method::kConnect)
    return refuse(405, "client sent CONNECT method while reading client request line");
  const auto target = http::parse_target(arena_, line.target);
  if (!target) return refuse(400, "client sent invalid URI while reading client request line");
  request_.target = target->uri;
  request_.raw_path = target->raw_path;
  request_.query = target->query;
  request_.has_query = target->has_query;
  absolute_form_ = !target->authority.empty();
  if (absolute_form_) request_.authority = target->authority;
  return true;
}

bool Parser::read_fields() {
  for (;;) {
    const std::size_t ending = line_end_at(at_, end_);
    if (ending != 0) {
      at_ += ending;
      return at_ == end_ || refuse(400, "client sent invalid header line");
    }
    if (++field_count_ > limits_.fields_max)
      return refuse(400, "client sent too many header lines while reading client request headers");
    if (!read_field()) return false;
  }
}

bool Parser::read_field() {
  std::string_view name;
  bool ignored = false;
  if (!read_name(name, ignored)) return false;
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
  const char* stop = find_field_stop(at_, end_);
  const std::size_t ending = line_end_at(stop, end_);
  if (ending == 0) return refuse(400, "client sent invalid header line");
  const char* last = stop;
  while (last != at_ && (last[-1] == ' ' || last[-1] == '\t')) --last;
  const std::string_view value{at_, static_cast<std::size_t>(last - at_)};
  at_ = stop + ending;
  if (!ignored) return keep_field(name, value);
  if (out_.ignored++ == 0) out_.first_ignored = name;
  return true;
}

// A blank at the line's start (obs-fold), before the colon or within the name is refused rather
// than ignored: others read such a line as a continuation, or as the field without its blank (RFC
// 9112 §5.1, §5.2).
bool Parser::read_name(std::string_view& name, bool& ignored) {
  const char* first = at_;
  bool token = true;
  bool plain = true;
  for (; at_ != end_ && *at_ != ':'; ++at_) {
    const NameByte kind = name_byte(*at_);
    if (kind == kPlain) continue;
    const auto c = static_cast<unsigned char>(*at_);
    if (c <= 0x20 || c == 0x7f) return refuse(400, "client sent invalid header line");
    if (kind == kNotToken) token = false;
    if (kind != kUnderscore || !limits_.underscores_in_headers) plain = false;
  }
  name = {first, static_cast<std::size_t>(at_ - first)};
  if (at_ == end_ || name.empty()) return refuse(400, "client sent invalid header line");
  ++at_;
  if (limits_.ignore_invalid_headers) {
    ignored = !plain;
  } else if (!token) {
    return refuse(400, "client sent invalid header line");
  }
  return true;
}

bool Parser::keep_field(std::string_view name, std::string_view value) {
  const FieldName id = http::parse_field_name(name);
  switch (id) {
    case FieldName::kHost:
      if (++host_fields_ > 1)
        return refuse(400,
                      "client sent duplicate host header while reading client request headers");
      // The absolute-form's counts, but an invalid one is refused all the same (RFC 9112 §3.2).
      if (!absolute_form_) {
        request_.authority = value;
      } else if (!http::parse_host(arena_, value)) {
        return refuse(400, "client sent invalid host header while reading client request headers");
      }
      break;
    case FieldName::kContentLength:
      if (!read_length(value)) return false;
      break;
    case FieldName::kTransferEncoding:
      ++transfer_encoding_fields_;
      transfer_encoding_ = value;
      break;
    case FieldName::kConnection:
      close_ = close_ || text::list_contains(value, "close");
      keep_alive_ = keep_alive_ || text::list_contains(value, "keep-alive");
      break;
    case FieldName::kExpect:
      // On HTTP/1.0 it is to be ignored (RFC 9110 §10.1.1).
      if (request_.version != http::Version::k11 || value.empty()) break;
      if (text::equals_ignore_case(value, "100-continue")) {
        request_.expects_continue = true;
      } else {
        request_.unknown_expectation = true;
      }
      break;
    default:
      break;
  }
  request_.fields.add(arena_, id, name, value);
  return true;
}

bool Parser::read_length(std::string_view value) {
  // Equal ones could be merged (RFC 9110 §8.6); nginx refuses them, and honest clients send one.
  if (request_.content_length) {
    return refuse(
        400,
        "client sent duplicate \"Content-Length\" header while reading client request headers");
  }
  const auto length = text::parse_decimal(value);
  // Above the signed range nothing behind us (files, FastCGI) can count.
  if (value.empty() || !length ||
      *length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return refuse(
        400, "client sent invalid \"Content-Length\" header while reading client request headers");
  }
  request_.content_length = length;
  return true;
}

bool Parser::judge_host() {
  if (host_fields_ == 0) {
    if (request_.version == http::Version::k10) return true;
    return refuse(400,
                  "client sent HTTP/1.1 request without \"Host\" header while reading client "
                  "request headers");
  }
  // Its form is the exchange's to judge, which selects the site by it; but an empty one would look
  // like none at all there.
  if (request_.authority.empty())
    return refuse(400, "client sent invalid host header while reading client request headers");
  return true;
}

// RFC 9112 §6: a request whose end two parties could see at different places is refused.
bool Parser::judge_framing() {
  if (transfer_encoding_fields_ == 0) {
    if (request_.content_length.value_or(0) > 0) out_.framing = BodyFraming::kLength;
  } else {
    if (request_.version == http::Version::k10) {
      return refuse(400,
                    "client sent HTTP/1.0 request with \"Transfer-Encoding\" header while reading "
                    "client request headers");
    }
    if (request_.content_length) {
      return refuse(400,
                    "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same "
                    "time while reading client request headers");
    }
    if (transfer_encoding_fields_ > 1) {
      return refuse(400,
                    "client sent duplicate \"Transfer-Encoding\" header while reading client "
                    "request headers");
    }
    if (!text::equals_ignore_case(transfer_encoding_, "chunked")) {
      return refuse(
          501, "client sent unknown \"Transfer-Encoding\" while reading client request headers");
    }
    out_.framing = BodyFraming::kChunked;
  }
  request_.body_expected = out_.framing != BodyFraming::kNone;
  return true;
}

void Parser::judge_persistence() {
  out_.keep_alive = !close_ && (request_.version == http::Version::k11 || keep_alive_);
}

}  // namespace

HeadLimits HeadLimits::from(const http::CoreSettings& settings) {
  const auto first = static_cast<std::size_t>(settings.client_header_buffer_size);
  const auto large = static_cast<std::size_t>(settings.large_header_buffers_size);
  // The scanner's positions have 32 bits; a gigabyte of head is beyond any use.
  constexpr std::size_t kTotalMax = std::size_t{1} << 30;
  const std::size_t total =
      std::min(first + settings.large_header_buffers_number * large, kTotalMax);
  return {.line_bytes = std::min(std::max(first, large), total),
          .total_bytes = total,
          .fields_max = settings.max_headers,
          .ignore_invalid_headers = settings.ignore_invalid_headers,
          .underscores_in_headers = settings.underscores_in_headers};
}

HeadScanner::Verdict HeadScanner::refuse(std::uint16_t status) {
  status_ = status;
  return Verdict::kRefused;
}

// True when there is something after them; false when more is needed or status_ is set.
bool HeadScanner::skip_empty_lines(std::string_view input) {
  while (begin_ < input.size()) {
    const std::size_t ending = line_end_at(input.data() + begin_, input.data() + input.size());
    if (ending == 0) {
      if (input[begin_] != '\r') return true;
      if (begin_ + 1 < input.size()) status_ = 400;  // A bare CR.
      return false;
    }
    begin_ += static_cast<std::uint32_t>(ending);
    line_ = begin_;
    if (begin_ > kLeadingBytesMax) {
      status_ = 400;
      return false;
    }
  }
  return false;
}

HeadScanner::Verdict HeadScanner::scan(std::string_view input, const HeadLimits& limits) {
  if (line_ == begin_ && !skip_empty_lines(input))
    return status_ != 0 ? Verdict::kRefused : Verdict::kIncomplete;
  for (;;) {
    const char* line = input.data() + line_;
    const std::size_t left = input.size() - line_;
    const char* newline =
        left == 0 ? nullptr : static_cast<const char*>(std::memchr(line, '\n', left));
    const std::size_t length = newline == nullptr ? left : static_cast<std::size_t>(newline - line);
    const bool has_return = length != 0 && line[length - 1] == '\r';
    if (length - (has_return ? 1 : 0) > limits.line_bytes)
      return refuse(line_ == begin_ ? 414 : kFieldTooLarge);
    if (line_ - begin_ + length > limits.total_bytes) return refuse(kFieldTooLarge);
    if (newline == nullptr) return Verdict::kIncomplete;
    line_ += static_cast<std::uint32_t>(length + 1);
    if (length == (has_return ? 1 : 0)) return Verdict::kComplete;
  }
}

std::uint16_t judge_beginning(std::string_view text) {
  if (text == "\r") return 0;  // The rest of an empty line may follow.
  const std::size_t newline = text.find('\n');
  if (newline != std::string_view::npos) {
    std::string_view line = text.substr(0, newline);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return split_request_line(line).status;
  }
  // A CR that no LF follows.
  if (const std::size_t cr = text.find('\r'); cr + 1 < text.size() && cr != std::string_view::npos)
    return 400;
  std::size_t i = 0;
  while (i < text.size() && http::is_method_name(text.substr(i, 1))) ++i;
  if (i == text.size()) return 0;
  return i == 0 || text[i] != ' ' ? 400 : 0;
}

ParsedHead parse_head(std::string_view head, const HeadLimits& limits, Arena& arena,
                      http::RequestHead& request) {
  return Parser(head, limits, arena, request).run();
}

}  // namespace corehttpd::h1
