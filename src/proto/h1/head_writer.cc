#include "proto/h1/head_writer.h"

#include <charconv>
#include <cstring>

#include "corehttpd/base/check.h"

#ifndef CORE_VERSION
#define CORE_VERSION "0"
#endif

namespace corehttpd::h1 {
namespace {

using http::FieldName;

constexpr std::size_t kNumberMax = 20;
// Status line, Server, Date, Content-Length, Last-Modified, Transfer-Encoding, Connection,
// Keep-Alive, Vary, Accept-Ranges and all the names and line ends around Content-Type, Location and
// ETag; the parts of variable length are counted apart.
constexpr std::size_t kFixedBound = 512;

char* put(char* to, std::string_view text) {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());  // An empty view may be null.
  return to + text.size();
}
template <std::size_t N>
char* put(char* to, const char (&literal)[N]) {
  std::memcpy(to, literal, N - 1);
  return to + N - 1;
}
char* put_number(char* to, std::uint64_t value) {
  return std::to_chars(to, to + kNumberMax, value).ptr;
}

char* put_status_line(char* to, std::uint16_t status, std::string_view reason) {
  if (status == 200 && reason.empty()) return put(to, "HTTP/1.1 200 OK\r\n");
  to = put(to, "HTTP/1.1 ");
  // Three digits (RFC 9112 §4), whatever "return" was given.
  for (const unsigned place : {100U, 10U, 1U}) *to++ = static_cast<char>('0' + status / place % 10);
  *to++ = ' ';
  if (reason.empty() || !http::is_field_value(reason)) reason = http::reason_phrase(status);
  to = put(to, reason);
  return put(to, "\r\n");
}

char* put_field(char* to, std::string_view name, std::string_view value) {
  to = put(to, name);
  to = put(to, ": ");
  to = put(to, value);
  return put(to, "\r\n");
}

std::size_t bound_of(const http::FieldList& fields) {
  std::size_t bytes = 0;
  for (const http::Field& field : fields) bytes += field.name.size() + field.value.size() + 4;
  return bytes;
}

bool is_sound(const http::Field& field) {
  return (field.id != FieldName::kOther || http::is_token(field.name)) &&
         http::is_field_value(field.value);
}

// What is the framing's business is written from it alone: a second Content-Length or Connection
// would contradict it.
bool is_framing(FieldName id) {
  return id == FieldName::kConnection || id == FieldName::kContentLength ||
         id == FieldName::kTransferEncoding || id == FieldName::kKeepAlive;
}

std::string_view server_name(http::CoreSettings::Tokens tokens) {
  return tokens == http::CoreSettings::Tokens::kOff ? "corehttpd" : "corehttpd/" CORE_VERSION;
}

}  // namespace

std::string_view HeadWriter::stamp(http::CoreSettings::Tokens tokens) {
  Stamp& stamp = stamps_[static_cast<std::size_t>(tokens)];
  if (stamp.second != clock_.wall_seconds()) {
    stamp.second = clock_.wall_seconds();
    char* to = put_field(stamp.text.data(), "Server", server_name(tokens));
    to = put_field(to, "Date", clock_.http_date());
    stamp.length = static_cast<std::size_t>(to - stamp.text.data());
  }
  return {stamp.text.data(), stamp.length};
}

std::string_view HeadWriter::last_modified(std::int64_t second) {
  DateText& date = dates_[static_cast<std::size_t>(second) & (kDates - 1)];
  if (date.second != second) {
    char text[30];
    format_http_date(second, text);
    std::memcpy(date.text.data(), text, date.text.size());
    date.second = second;
  }
  return {date.text.data(), date.text.size()};
}

std::size_t HeadWriter::bound(const http::ResponseHead& head) {
  return kFixedBound + head.reason.size() + head.content_type.size() + head.charset.size() +
         head.location.size() + head.etag.size() + bound_of(head.fields);
}

char* HeadWriter::write(char* to, const http::ResponseHead& head, const HeadFraming& framing,
                        http::CoreSettings::Tokens tokens) {
  // A backend's own Server or Date, and an Accept-Ranges that somebody added, stand for ours.
  bool own_server = false, own_date = false, own_ranges = false;
  for (const http::Field& field : head.fields) {
    own_server |= field.id == FieldName::kServer;
    own_date |= field.id == FieldName::kDate;
    own_ranges |= field.id == FieldName::kAcceptRanges;
  }
  to = put_status_line(to, head.status, head.reason);
  if (!own_server && !own_date) {
    to = put(to, stamp(tokens));
  } else {
    if (!own_server) to = put_field(to, "Server", server_name(tokens));
    if (!own_date) to = put_field(to, "Date", clock_.http_date());
  }
  if (!head.content_type.empty() && http::is_field_value(head.content_type)) {
    to = put(put(to, "Content-Type: "), head.content_type);
    if (!head.charset.empty()) to = put(put(to, "; charset="), head.charset);
    to = put(to, "\r\n");
  }
  if (head.content_length && !framing.chunked) {
    to = put(put_number(put(to, "Content-Length: "), *head.content_length), "\r\n");
  }
  if (head.last_modified >= 0)
    to = put(put(put(to, "Last-Modified: "), last_modified(head.last_modified)), "\r\n");
  if (!head.location.empty() && http::is_field_value(head.location))
    to = put_field(to, "Location", head.location);
  if (framing.chunked) to = put(to, "Transfer-Encoding: chunked\r\n");
  if (framing.keep_alive) {
    to = put(to, "Connection: keep-alive\r\n");
    if (framing.keep_alive_ms >= 0) {
      to = put(put_number(put(to, "Keep-Alive: timeout="),
                          static_cast<std::uint64_t>(framing.keep_alive_ms / 1000)),
               "\r\n");
    }
  } else {
    to = put(to, "Connection: close\r\n");
  }
  if (head.vary_accept_encoding) to = put(to, "Vary: Accept-Encoding\r\n");
  if (!head.etag.empty() && http::is_field_value(head.etag)) to = put_field(to, "ETag", head.etag);
  for (const http::Field& field : head.fields) {
    if (!is_framing(field.id) && is_sound(field)) to = put_field(to, field.name, field.value);
  }
  if (head.accept_ranges && head.status == 200 && !own_ranges)
    to = put(to, "Accept-Ranges: bytes\r\n");
  return put(to, "\r\n");
}

std::size_t HeadWriter::bound(std::uint16_t, const http::FieldList& fields) {
  return kFixedBound + bound_of(fields);
}

char* HeadWriter::write_interim(char* to, std::uint16_t status, const http::FieldList& fields) {
  return write_trailers(put_status_line(to, status, {}), fields);
}

char* HeadWriter::write_trailers(char* to, const http::FieldList& fields) {
  for (const http::Field& field : fields) {
    if (!is_framing(field.id) && is_sound(field)) to = put_field(to, field.name, field.value);
  }
  return put(to, "\r\n");
}

}  // namespace corehttpd::h1
