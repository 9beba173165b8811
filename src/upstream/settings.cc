#include "corehttpd/upstream/settings.h"

#include <fmt/format.h>

#include <string>

#include "corehttpd/base/ip_address.h"
#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/fields.h"
#include "corehttpd/http/temp_paths.h"

namespace corehttpd::upstream::detail {
namespace {

struct NamedBit {
  std::string_view name;
  std::uint32_t bit;
};
constexpr NamedBit kNextNames[] = {
    {"error", kNextError},
    {"timeout", kNextTimeout},
    {"invalid_header", kNextInvalidHeader},
    {"http_500", kNext500},
    {"http_502", kNext502},
    {"http_503", kNext503},
    {"http_504", kNext504},
    {"http_403", kNext403},
    {"http_404", kNext404},
    {"http_429", kNext429},
    {"non_idempotent", kNextNonIdempotent},
    {"off", kNextOff},
};
constexpr NamedBit kIgnoreNames[] = {
    {"X-Accel-Redirect", kIgnoreAccelRedirect},
    {"X-Accel-Expires", kIgnoreAccelExpires},
    {"X-Accel-Limit-Rate", kIgnoreAccelLimitRate},
    {"X-Accel-Buffering", kIgnoreAccelBuffering},
    {"X-Accel-Charset", kIgnoreAccelCharset},
    {"Expires", kIgnoreExpires},
    {"Cache-Control", kIgnoreCacheControl},
    {"Set-Cookie", kIgnoreSetCookie},
    {"Vary", kIgnoreVary},
};

G& settings_of(const conf::Setting& s) { return *static_cast<G*>(s.settings); }

bool read_bits(const conf::Setting& s, std::span<const NamedBit> names, std::uint32_t& out) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const auto found = std::ranges::find_if(
        names, [&](const NamedBit& n) { return text::equals_ignore_case(n.name, s.word(i)); });
    if (found == names.end()) {
      std::string allowed;
      for (const NamedBit& n : names) allowed.append(allowed.empty() ? "" : ", ").append(n.name);
      return conf::fail_choice(s, i, allowed);
    }
    bits |= found->bit;
  }
  out = bits;
  return true;
}

bool add_name(const conf::Setting& s, std::span<const std::string_view>& list) {
  if (!http::is_token(s.word(0))) return s.fail(0, "invalid field name \"{}\"", s.word(0));
  const auto old = s.first_here ? std::span<const std::string_view>() : list;
  const std::span<std::string_view> fresh = s.arena().make_array<std::string_view>(old.size() + 1);
  std::ranges::copy(old, fresh.begin());
  fresh.back() = s.arena().copy(s.word(0));
  list = fresh;
  return true;
}

}  // namespace

bool set_buffers(const conf::Setting& s) {
  G& settings = settings_of(s);
  if (!conf::read_number(s, 0, 2, 1'000'000, settings.buffers_number)) return false;
  if (!conf::read_size(s, 1, settings.buffers_size)) return false;
  if (settings.buffers_size < 1024) return s.fail(1, "buffers below 1k are of no use");
  return true;
}

bool set_bind(const conf::Setting& s) {
  G& settings = settings_of(s);
  settings.bind = nullptr;
  settings.bind_program = expr::Program();
  settings.bind_transparent = s.words().size() == 2;
  if (s.words().size() == 2 && s.word(1) != "transparent") {
    return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  }
  if (s.word(0) == "off") return true;
  if (expr::has_variables(s.word(0))) return expr::read_program(s, 0, settings.bind_program);
  auto* address = s.arena().make<io::Address>();
  if (!parse_bind_address(s.word(0), *address)) {
    return s.fail(0, "invalid address \"{}\"", s.word(0));
  }
  settings.bind = address;
  return true;
}

bool set_limit_rate(const conf::Setting& s) {
  if (!expr::has_variables(s.word(0)) && !conf::parse_size(s.word(0))) {
    return s.fail(0, "\"{}\" directive invalid value", s.name());
  }
  return expr::read_program(s, 0, settings_of(s).limit_rate);
}

bool read_queue(const conf::Setting& s, std::uint64_t min, std::uint64_t& requests_max,
                Milliseconds& timeout) {
  if (!conf::read_number(s, 0, min, 1'000'000, requests_max)) return false;
  if (s.words().size() == 1) return true;
  if (!s.word(1).starts_with("timeout=")) return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  const auto time = conf::parse_time_ms(s.word(1).substr(8));
  if (!time || *time == 0) return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  timeout = *time;
  return true;
}

bool set_queue_of_location(const conf::Setting& s) {
  return read_queue(s, 0, settings_of(s).queue_max, settings_of(s).queue_timeout);
}

bool set_buffer_size(const conf::Setting& s) {
  if (!conf::read_size(s, 0, settings_of(s).buffer_size)) return false;
  if (settings_of(s).buffer_size < 1024) return s.fail(0, "no response has a head below 1k");
  return true;
}

bool set_next_upstream(const conf::Setting& s) {
  return read_bits(s, kNextNames, settings_of(s).next_upstream);
}

bool set_ignore_headers(const conf::Setting& s) {
  return read_bits(s, kIgnoreNames, settings_of(s).ignore_headers);
}

bool set_hide_header(const conf::Setting& s) { return add_name(s, settings_of(s).hide_headers); }
bool set_x_sendfile(const conf::Setting& s) {
  G& settings = settings_of(s);
  settings.x_sendfile = s.word(0) != "off";
  settings.x_sendfile_folders = {};
  if (s.word(0) == "on" || s.word(0) == "off") {
    return s.words().size() == 1 || s.fail(1, "invalid parameter \"{}\"", s.word(1));
  }
  const auto folders = s.arena().make_array<std::string_view>(s.words().size());
  for (std::size_t i = 0; i < folders.size(); ++i) {
    folders[i] = s.compiler.full_path(s.word(i));
  }
  settings.x_sendfile_folders = folders;
  return true;
}

bool set_pass_header(const conf::Setting& s) { return add_name(s, settings_of(s).pass_headers); }

bool set_temp_path(const conf::Setting& s) {
  for (std::size_t i = 1; i < s.words().size(); ++i) {
    std::uint64_t level = 0;
    if (!conf::read_number(s, i, 0, 3, level)) return false;
  }
  G& settings = settings_of(s);
  if (!conf::read_path(s, 0, settings.temp_path)) return false;
  s.compiler.object_or_make<http::TempPaths>().add(settings.temp_path);
  return true;
}

bool set_store(const conf::Setting& s) {
  if (s.word(0) == "off") return true;
  return s.fail(0, "storing responses as files is not supported; use \"off\" and the cache");
}

}  // namespace corehttpd::upstream::detail

namespace corehttpd::upstream {

bool parse_bind_address(std::string_view text, io::Address& out) {
  const IpAddress::Family family = IpAddress::parse(text).family;
  std::string brackets;
  if (family == IpAddress::Family::kV6) text = brackets = fmt::format("[{}]", text);
  // Any port will do to parse it; without one the system chooses.
  const Result<io::Address> address = io::parse_address(text, 1);
  if (!address || address->is_unix() || io::is_any_host(text)) return false;
  out = *address;
  const bool bare = family != IpAddress::Family::kNone || text.ends_with(']');
  if (bare) out.set_port(0);
  return true;
}

}  // namespace corehttpd::upstream
