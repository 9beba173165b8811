// $upstream_...: entries of several servers are separated by ", ", those of an internal redirect
// from one group to another by " : ", as nginx has it.
#include <fmt/format.h>

#include "corehttpd/base/text.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/upstream/attempts.h"
#include "corehttpd/upstream/gateway.h"

namespace corehttpd::upstream {
namespace {

using expr::Value;

// write(text, attempt) appends one entry.
template <class Write>
Value list_of(http::Exchange& exchange, Write&& write) {
  const Attempts* attempts = exchange.find_state<Attempts>();
  if (attempts == nullptr || attempts->list.empty()) return std::nullopt;
  fmt::memory_buffer text;
  bool first = true;
  for (const Attempt* attempt : attempts->list) {
    if (!first) text.append(attempt->redirected ? std::string_view(" : ") : std::string_view(", "));
    first = false;
    write(text, *attempt);
  }
  return exchange.arena().copy({text.data(), text.size()});
}

void append_time(fmt::memory_buffer& text, Milliseconds time) {
  if (time < 0) {
    text.push_back('-');
  } else {
    fmt::format_to(std::back_inserter(text), "{}.{:03}", time / 1000, time % 1000);
  }
}

template <Milliseconds Attempt::*Field>
Value time_of(http::Exchange& exchange, std::string_view) {
  return list_of(exchange, [](fmt::memory_buffer& text, const Attempt& attempt) {
    append_time(text, attempt.*Field);
  });
}

template <std::uint64_t Attempt::*Field>
Value count_of(http::Exchange& exchange, std::string_view) {
  return list_of(exchange, [](fmt::memory_buffer& text, const Attempt& attempt) {
    fmt::format_to(std::back_inserter(text), "{}", attempt.*Field);
  });
}

Value addr(http::Exchange& exchange, std::string_view) {
  return list_of(exchange, [](fmt::memory_buffer& text, const Attempt& attempt) {
    text.append(attempt.address);
  });
}

Value status(http::Exchange& exchange, std::string_view) {
  return list_of(exchange, [](fmt::memory_buffer& text, const Attempt& attempt) {
    if (attempt.status == 0) {
      text.push_back('-');
    } else {
      fmt::format_to(std::back_inserter(text), "{}", attempt.status);
    }
  });
}

// What the log shows of a response that is still under way is the time until now.
Value response_time(http::Exchange& exchange, std::string_view) {
  const Milliseconds now = exchange.services().clock.now_ms();
  return list_of(exchange, [now](fmt::memory_buffer& text, const Attempt& attempt) {
    append_time(text, attempt.response_ms >= 0 ? attempt.response_ms : now - attempt.started_ms);
  });
}

bool names_field(std::string_view field, std::string_view variable) {
  if (field.size() != variable.size()) return false;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const char c = field[i] == '-' ? '_' : text::lower(field[i]);
    if (c != text::lower(variable[i])) return false;
  }
  return true;
}

Value http_field(http::Exchange& exchange, std::string_view name) {
  const Attempts* attempts = exchange.find_state<Attempts>();
  if (attempts == nullptr) return std::nullopt;
  std::string_view joined;
  bool found = false;
  for (const http::Field& field : attempts->fields) {
    if (!names_field(field.name, name)) continue;
    joined = found ? exchange.arena().concat(joined, ", ", field.value) : field.value;
    found = true;
  }
  if (!found) return std::nullopt;
  return joined;
}

Value cookie(http::Exchange& exchange, std::string_view name) {
  const Attempts* attempts = exchange.find_state<Attempts>();
  if (attempts == nullptr) return std::nullopt;
  for (const http::Field& field : attempts->fields) {
    if (field.id != http::FieldName::kSetCookie) continue;
    const std::string_view pair = field.value.substr(0, field.value.find(';'));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    if (text::equals_ignore_case(text::trim(pair.substr(0, equals)), name)) {
      return text::trim(pair.substr(equals + 1));
    }
  }
  return std::nullopt;
}

Value unset(http::Exchange&, std::string_view) { return std::nullopt; }

constexpr expr::Variable kVariables[] = {
    {.name = "upstream_addr", .get = addr, .doc = "Addresses of the servers asked."},
    {.name = "upstream_bytes_received",
     .get = count_of<&Attempt::bytes_received>,
     .doc = "Bytes received from each server."},
    {.name = "upstream_bytes_sent",
     .get = count_of<&Attempt::bytes_sent>,
     .doc = "Bytes sent to each server."},
    {.name = "upstream_cache_status", .get = unset, .doc = "Not set as long as there is no cache."},
    {.name = "upstream_connect_time",
     .get = time_of<&Attempt::connect_ms>,
     .doc = "Seconds until each connection was made."},
    {.name = "upstream_cookie_",
     .get = cookie,
     .family = true,
     .doc = "A cookie that the last server's response sets."},
    {.name = "upstream_header_time",
     .get = time_of<&Attempt::header_ms>,
     .doc = "Seconds until each response's head was here."},
    {.name = "upstream_http_",
     .get = http_field,
     .family = true,
     .doc = "A field of the last server's response."},
    {.name = "upstream_response_length",
     .get = count_of<&Attempt::response_length>,
     .doc = "Bytes of each response's body."},
    {.name = "upstream_response_time",
     .get = response_time,
     .doc = "Seconds until each response was complete."},
    {.name = "upstream_status", .get = status, .doc = "Status of each server's response."},
    {.name = "upstream_trailer_",
     .get = unset,
     .family = true,
     .doc = "A field behind the last server's response: FastCGI, SCGI and uwsgi have none."},
};

}  // namespace

std::span<const expr::Variable> upstream_variables() { return kVariables; }

}  // namespace corehttpd::upstream
