// "syslog:server=address[,facility=…][,severity=…][,tag=…][,nohostname]", as access_log and
// error_log take it (nginx: "Logging to syslog").
#include <array>

#include "corehttpd/base/ip_address.h"
#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/log_files.h"

namespace corehttpd::http {
namespace {

using conf::Setting;

constexpr std::array<std::string_view, 24> kFacilities = {
    "kern",   "user",   "mail",     "daemon", "auth",   "intern", "lpr",    "news",
    "uucp",   "clock",  "authpriv", "ftp",    "ntp",    "audit",  "alert",  "cron",
    "local0", "local1", "local2",   "local3", "local4", "local5", "local6", "local7"};
constexpr std::array<std::string_view, 8> kSeverities = {"emerg", "alert",  "crit", "error",
                                                         "warn",  "notice", "info", "debug"};
constexpr std::size_t kTagMax = 32;
constexpr std::size_t kUnixPathMax = 107;  // sun_path without its end.

template <std::size_t N>
bool find(const std::array<std::string_view, N>& names, std::string_view name, std::uint8_t& out) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] != name) continue;
    out = static_cast<std::uint8_t>(i);
    return true;
  }
  return false;
}

class Reader {
 public:
  Reader(const Setting& setting, std::size_t word) : s_(setting), word_(word) {}
  bool read(std::string_view text, Syslog::Parameters& out);

 private:
  bool read_parameter(std::string_view parameter, Syslog::Parameters& out);
  bool read_server(std::string_view text, Syslog::Parameters& out);
  bool read_tag(std::string_view text, Syslog::Parameters& out);
  bool once(bool& seen, std::string_view name) {
    if (!std::exchange(seen, true)) return true;
    return s_.fail(word_, "duplicate syslog \"{}\"", name);
  }

  const Setting& s_;
  std::size_t word_;
  bool server_ = false, facility_ = false, severity_ = false, tag_ = false;
};

bool Reader::read(std::string_view text, Syslog::Parameters& out) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (!read_parameter(text.substr(0, comma), out)) return false;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return server_ || s_.fail(word_, "no syslog server specified");
}

bool Reader::read_parameter(std::string_view parameter, Syslog::Parameters& out) {
  const std::size_t equals = parameter.find('=');
  const std::string_view name = parameter.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : parameter.substr(equals + 1);
  if (parameter == "nohostname") {
    out.hostname = false;
    return true;
  }
  if (equals != std::string_view::npos) {
    if (name == "server") return once(server_, name) && read_server(value, out);
    if (name == "tag") return once(tag_, name) && read_tag(value, out);
    if (name == "facility") {
      return once(facility_, name) && (find(kFacilities, value, out.facility) ||
                                       s_.fail(word_, "unknown syslog facility \"{}\"", value));
    }
    if (name == "severity") {
      return once(severity_, name) && (find(kSeverities, value, out.severity) ||
                                       s_.fail(word_, "unknown syslog severity \"{}\"", value));
    }
  }
  return s_.fail(word_, "unknown syslog parameter \"{}\"", parameter);
}

bool Reader::read_server(std::string_view text, Syslog::Parameters& out) {
  const auto wrong = [&](std::string_view why) {
    return s_.fail(word_, "{} in syslog server \"{}\"", why, text);
  };
  out.server = text;
  if (text.starts_with("unix:")) {
    out.is_unix = true;
    out.host = text.substr(5);
    if (out.host.empty()) return wrong("no path");
    return out.host.size() <= kUnixPathMax || wrong("too long path");
  }
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("invalid host");
    out.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (IpAddress::parse(out.host).family != IpAddress::Family::kV6) return wrong("invalid host");
  } else {
    const std::size_t colon = text.find(':');
    out.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon);
  }
  if (out.host.empty()) return wrong("no host");
  if (port.empty()) return true;
  const auto number = text::parse_decimal(port.substr(1));
  if (port.front() != ':' || !number || *number == 0 || *number > 65535)
    return wrong("invalid port");
  out.port = static_cast<std::uint16_t>(*number);
  return true;
}

bool Reader::read_tag(std::string_view text, Syslog::Parameters& out) {
  if (text.size() > kTagMax) return s_.fail(word_, "syslog tag length exceeds {}", kTagMax);
  for (char c : text) {
    if (!text::is_digit(c) && (text::lower(c) < 'a' || text::lower(c) > 'z') && c != '_') {
      return s_.fail(word_, "syslog \"tag\" only allows alphanumeric characters and underscore");
    }
  }
  if (text.empty()) return s_.fail(word_, "empty syslog tag");
  out.tag = text;
  return true;
}

}  // namespace

Syslog* LogFiles::add_syslog(const Setting& s, std::size_t word) {
  const std::string_view text = s.word(word);
  for (const SyslogServer& known : syslogs_) {
    if (known.text == text) return known.syslog;
  }
  Syslog::Parameters parameters;
  if (!Reader(s, word).read(text.substr(std::string_view("syslog:").size()), parameters))
    return nullptr;
  Syslog* made = s.arena().make<Syslog>(parameters);
  syslogs_.push_back({made, text, s.node.words[word].at});
  return made;
}

}  // namespace corehttpd::http
