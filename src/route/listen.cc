// The listen directive, read.
#include <fmt/format.h>

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/conf/values.h"
#include "route/builder.h"

namespace corehttpd::route {
namespace {

constexpr std::uint16_t kPortDefault = 80;
// How long the kernel keeps a connection without bytes to itself when "deferred" asks for it:
// client_header_timeout's default.
constexpr int kDeferSeconds = 60;

void add_notice(const conf::Setting& s, std::size_t word, std::string message, std::string help) {
  s.compiler.diagnostics().add(conf::Severity::kNotice, s.node.words[word].at, std::move(message),
                               std::move(help), s.word(word).size());
}

bool fail_port(const conf::Setting& s) {
  return s.fail_text(0,
                     fmt::format("invalid port in \"{}\" of the \"listen\" directive", s.word(0)),
                     "ports go from 1 to 65535");
}

// One address; names are resolved here, in the master, as nginx does.
bool read_address(const conf::Setting& s, std::string_view text, ListenBuild& listen) {
  const Result<io::Address> numeric = io::parse_address(text, kPortDefault);
  if (numeric) {
    listen.addresses.push_back(*numeric);
    return true;
  }
  const std::string_view written = s.word(0);
  if (std::string_view(numeric.error().context) == "invalid port") return fail_port(s);
  if (numeric.error().code != Code::kNotFound) {
    return s.fail(0, "{} in \"{}\" of the \"listen\" directive", numeric.error().context, written);
  }
  const auto parts = io::split_host_port(text, kPortDefault);
  const auto resolved = parts ? io::resolve(parts->host, parts->port) : numeric;
  if (!resolved) {
    return s.fail(0, "{} in \"{}\" of the \"listen\" directive", resolved.error().context, written);
  }
  listen.addresses.push_back(*resolved);
  return true;
}

// "8000-8010" and "127.0.0.1:8000-8010" are one address per port.
bool read_addresses(const conf::Setting& s, ListenBuild& listen) {
  const std::string_view text = s.word(0);
  const std::size_t dash = text.rfind('-');
  if (dash == std::string_view::npos || text.starts_with("unix:")) {
    return read_address(s, text, listen);
  }
  const std::size_t colon = text.rfind(':');
  const std::size_t start = colon == std::string_view::npos ? 0 : colon + 1;
  // A dash before the colon belongs to a host name.
  if (dash < start) return read_address(s, text, listen);
  const auto first = text::parse_decimal(text.substr(start, dash - start));
  const auto last = text::parse_decimal(text.substr(dash + 1));
  if (!first || !last) return read_address(s, text, listen);
  if (*first == 0 || *last > 65535 || *first > *last) {
    return fail_port(s);
  }
  for (std::uint64_t port = *first; port <= *last; ++port) {
    if (!read_address(s, fmt::format("{}{}", text.substr(0, start), port), listen)) return false;
  }
  return true;
}

bool fail_parameter(const conf::Setting& s, std::size_t word, std::string_view name) {
  return s.fail(word, "invalid {} \"{}\"", name, s.word(word));
}

// "name=value": value; nothing if word is another parameter.
std::optional<std::string_view> value_of(std::string_view word, std::string_view name) {
  if (word.size() <= name.size() || !word.starts_with(name) || word[name.size()] != '=') {
    return std::nullopt;
  }
  return word.substr(name.size() + 1);
}

enum class Read : std::uint8_t { kNo, kYes, kFailed };

Read read_size_parameter(const conf::Setting& s, std::size_t word, std::string_view name,
                         int& out) {
  const auto value = value_of(s.word(word), name);
  if (!value) return Read::kNo;
  const auto size = conf::parse_size(*value);
  if (!size || *size > INT32_MAX) {
    fail_parameter(s, word, name);
    return Read::kFailed;
  }
  out = static_cast<int>(*size);
  return Read::kYes;
}

// "so_keepalive=on", "off", or "[idle]:[interval]:[probes]" with at least one of them.
bool read_keepalive(std::string_view value, io::ListenOptions& options) {
  using KeepAlive = io::ListenOptions::KeepAlive;
  if (value == "off") {
    options.keep_alive = KeepAlive::kOff;
    return true;
  }
  options.keep_alive = KeepAlive::kOn;
  if (value == "on") return true;
  int* const seconds[] = {&options.keep_idle_seconds, &options.keep_interval_seconds};
  for (int* out : seconds) {
    const std::size_t colon = value.find(':');
    if (colon == std::string_view::npos) return false;
    const auto time = conf::parse_time_ms(colon == 0 ? "0" : value.substr(0, colon));
    // The kernel counts in whole seconds, up to its own limit of nine hours.
    if (!time || *time > 32767 * Milliseconds{1000}) return false;
    *out = static_cast<int>((*time + 999) / 1000);
    value.remove_prefix(colon + 1);
  }
  const auto probes = value.empty() ? 0 : text::parse_decimal(value);
  if (!probes || *probes > 127) return false;
  options.keep_probes = static_cast<int>(*probes);
  return options.keep_idle_seconds + options.keep_interval_seconds + options.keep_probes > 0;
}

Read read_tcp_parameter(const conf::Setting& s, std::size_t word, ListenBuild& listen) {
  const std::string_view text = s.word(word);
  if (const auto value = value_of(text, "fastopen")) {
    const auto number = text::parse_decimal(*value);
    if (!number || *number > INT32_MAX) {
      fail_parameter(s, word, "fastopen");
      return Read::kFailed;
    }
    listen.options.fast_open = static_cast<int>(*number);
    return Read::kYes;
  }
  if (const auto value = value_of(text, "so_keepalive")) {
    if (!read_keepalive(*value, listen.options)) {
      s.fail(word, "invalid so_keepalive value: \"{}\"", *value);
      return Read::kFailed;
    }
    return Read::kYes;
  }
  if (text == "deferred") {
    listen.options.defer_seconds = kDeferSeconds;
    return Read::kYes;
  }
  return Read::kNo;
}

// Parameters that shape the socket. Any of them gives the address a socket of its own.
Read read_socket_parameter(const conf::Setting& s, std::size_t word, ListenBuild& listen) {
  const std::string_view text = s.word(word);
  if (text == "bind") return Read::kYes;
  if (text == "reuseport") {
    listen.options.reuse_port = true;
    return Read::kYes;
  }
  if (const auto value = value_of(text, "backlog")) {
    // -1 is nginx's way to ask for the largest.
    const auto number = *value == "-1" ? 0 : text::parse_decimal(*value);
    if (!number || (*number == 0 && *value != "-1") || *number > INT32_MAX) {
      fail_parameter(s, word, "backlog");
      return Read::kFailed;
    }
    listen.options.backlog = static_cast<int>(*number);
    return Read::kYes;
  }
  if (const auto value = value_of(text, "ipv6only")) {
    if (*value != "on" && *value != "off") {
      s.fail(word, "invalid ipv6only flags \"{}\"", *value);
      return Read::kFailed;
    }
    if (listen.addresses.front().family() != AF_INET6) {
      s.fail(word, "ipv6only is not supported on addr \"{}\"",
             listen.addresses.front().to_string());
      return Read::kFailed;
    }
    listen.options.ipv6_only = *value == "on";
    return Read::kYes;
  }
  Read read = read_size_parameter(s, word, "rcvbuf", listen.options.receive_buffer);
  if (read == Read::kNo) {
    read = read_size_parameter(s, word, "sndbuf", listen.options.send_buffer);
  }
  if (read != Read::kNo) return read;
  for (std::string_view name : {"setfib", "accept_filter"}) {
    if (!value_of(text, name)) continue;
    add_notice(s, word, fmt::format("parameter \"{}\" of \"listen\" has no effect", text),
               "Linux has nothing like it");
    return Read::kYes;
  }
  return read_tcp_parameter(s, word, listen);
}

bool read_parameter(const conf::Setting& s, std::size_t word, ListenBuild& listen) {
  const std::string_view text = s.word(word);
  if (text == "default_server" || text == "default") {
    listen.default_server = true;
    return true;
  }
  if (text == "ssl") {
    listen.tls = true;
    return true;
  }
  if (text == "quic") {
    listen.quic = true;
    return true;
  }
  if (text == "http2") {
    s.warn(word,
           "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead");
    return true;
  }
  if (text == "proxy_protocol") {
    listen.proxy_protocol = true;
    return true;
  }
  switch (read_socket_parameter(s, word, listen)) {
    case Read::kYes:
      listen.options_set = true;
      listen.bind = true;
      return true;
    case Read::kFailed:
      return false;
    case Read::kNo:
      break;
  }
  return s.fail(word, "invalid parameter \"{}\"", text);
}

}  // namespace

bool set_listen(const conf::Setting& s) {
  ListenBuild listen;
  listen.at = s.node.words[0].at;
  listen.width = s.word(0).size();
  if (!read_addresses(s, listen)) return false;
  for (std::size_t i = 1; i < s.words().size(); ++i) {
    if (!read_parameter(s, i, listen)) return false;
  }
  if (listen.quic && listen.tls) {
    return s.fail(conf::Setting::kWholeDirective,
                  "\"quic\" parameter is incompatible with \"ssl\"");
  }
  if (listen.quic && listen.proxy_protocol) {
    return s.fail(conf::Setting::kWholeDirective,
                  "\"proxy_protocol\" parameter is incompatible with \"quic\"");
  }
  if (listen.quic) {
    s.compiler.diagnostics().add(conf::Severity::kWarning, s.node.words[0].at,
                                 fmt::format("\"listen {} quic\" is not bound yet", s.word(0)),
                                 "HTTP/3 is still to come; the address is left out",
                                 s.word(0).size());
  }
  static_cast<ServerBuild*>(s.scope.object)->listens.push_back(std::move(listen));
  return true;
}

}  // namespace corehttpd::route
