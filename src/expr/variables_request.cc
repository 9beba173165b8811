// What the client sent.
#include <algorithm>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/http/credentials.h"
#include "corehttpd/http/request_body.h"
#include "corehttpd/http/request_id.h"
#include "expr/variables.h"

namespace corehttpd::expr {
namespace {

// Takes "name=value" up to separator off rest.
bool next_piece(std::string_view& rest, char separator, std::string_view& piece) {
  if (rest.data() == nullptr || rest.empty()) return false;
  const std::size_t end = rest.find(separator);
  piece = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return true;
}

bool matches_variable_name(std::string_view field, std::string_view name) {
  if (field.size() != name.size()) return false;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const char c = field[i] == '-' ? '_' : text::lower(field[i]);
    if (c != text::lower(name[i])) return false;
  }
  return true;
}

}  // namespace

Value field_by_variable_name(Arena& arena, const http::FieldList& fields, std::string_view name,
                             std::string_view separator) {
  const http::Field* first = nullptr;
  std::size_t count = 0;
  for (const http::Field& field : fields) {
    if (!matches_variable_name(field.name, name)) continue;
    if (first == nullptr) first = &field;
    ++count;
  }
  if (first == nullptr) return std::nullopt;
  if (count == 1) return first->value;
  ArenaVector<std::string_view> parts;
  for (const http::Field& field : fields) {
    if (!matches_variable_name(field.name, name)) continue;
    if (!parts.empty()) parts.push_back(arena, separator);
    parts.push_back(arena, field.value);
  }
  return arena.concat_views(std::span(parts.begin(), parts.size()));
}

namespace get {

Value args(http::Exchange& exchange, std::string_view) {
  const std::string_view args = exchange.args();
  return args.data() == nullptr ? std::string_view("") : args;
}

void set_args(http::Exchange& exchange, std::string_view value) { exchange.set_args(value); }

Value argument(http::Exchange& exchange, std::string_view name) {
  std::string_view rest = exchange.args(), piece;
  while (next_piece(rest, '&', piece)) {
    if (piece.size() > name.size() && piece[name.size()] == '=' &&
        text::starts_with_ignore_case(piece, name)) {
      return piece.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

Value is_args(http::Exchange& exchange, std::string_view) {
  return exchange.args().empty() ? std::string_view("") : std::string_view("?");
}

Value cookie(http::Exchange& exchange, std::string_view name) {
  for (const http::Field& field : exchange.request().fields) {
    if (field.id != http::FieldName::kCookie) continue;
    std::string_view rest = field.value, piece;
    while (next_piece(rest, ';', piece)) {
      const std::size_t equals = piece.find('=');
      if (equals == std::string_view::npos) continue;
      if (text::equals_ignore_case(text::trim(piece.substr(0, equals)), name)) {
        return text::trim(piece.substr(equals + 1));
      }
    }
  }
  return std::nullopt;
}

Value http_field(http::Exchange& exchange, std::string_view name) {
  const http::RequestHead& request = exchange.request();
  const bool is_cookie = text::equals_ignore_case(name, "cookie");
  const Value found =
      field_by_variable_name(exchange.arena(), request.fields, name, is_cookie ? "; " : ", ");
  // HTTP/2 and later carry the host as a pseudo-field; to an operator it is one and the same.
  if (!found && text::equals_ignore_case(name, "host")) return unless_empty(request.authority);
  return found;
}

Value content_length(http::Exchange& exchange, std::string_view) {
  const auto& length = exchange.request().content_length;
  if (!length) return std::nullopt;
  return decimal(exchange, *length);
}

Value content_type(http::Exchange& exchange, std::string_view) {
  const http::Field* field = exchange.request().fields.find(http::FieldName::kContentType);
  if (field == nullptr) return std::nullopt;
  return field->value;
}

Value host(http::Exchange& exchange, std::string_view) {
  return exchange.host().empty() ? exchange.site().name : exchange.host();
}

Value remote_user(http::Exchange& exchange, std::string_view) {
  const http::BasicCredentials* credentials = http::basic_credentials(exchange);
  if (credentials == nullptr) return std::nullopt;
  return credentials->user;
}

Value request(http::Exchange& exchange, std::string_view) {
  return unless_empty(exchange.main().request().request_line);
}

Value request_body(http::Exchange& exchange, std::string_view) {
  return unless_empty(exchange.body().text(exchange.arena()));
}

Value request_body_file(http::Exchange& exchange, std::string_view) {
  return unless_empty(exchange.body().file_name());
}

Value request_id(http::Exchange& exchange, std::string_view) {
  return unless_empty(http::request_id(exchange));
}

Value request_length(http::Exchange& exchange, std::string_view) {
  http::Exchange& main = exchange.main();
  return decimal(exchange, main.request().head_bytes + main.body().size());
}

Value request_method(http::Exchange& exchange, std::string_view) {
  return unless_empty(exchange.main().request().method_text);
}

Value request_uri(http::Exchange& exchange, std::string_view) {
  return unless_empty(exchange.main().request().target);
}

Value server_name(http::Exchange& exchange, std::string_view) { return exchange.site().name; }

Value server_protocol(http::Exchange& exchange, std::string_view) {
  return http::to_string(exchange.main().request().version);
}

Value uri(http::Exchange& exchange, std::string_view) { return exchange.uri(); }

}  // namespace get
}  // namespace corehttpd::expr
