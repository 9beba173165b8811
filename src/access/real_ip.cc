#include "corehttpd/access/real_ip.h"

#include <algorithm>
#include <vector>

#include "access/forwarded.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::access {
namespace {

using conf::Setting;
using http::Exchange;
using http::StepOutcome;

constexpr std::string_view kProxyProtocol = "proxy_protocol";

// Of the main request: the address is changed once.
struct RealIpState {
  bool changed = false;
};

bool from_proxy_header(Exchange& exchange, const RealIpSettings& settings, IpAddress& client) {
  const http::ProxyHeader& proxy = exchange.connection().proxy;
  if (!proxy) return false;
  for (const IpNetwork& network : settings.trusted) {
    if (!network.contains(client)) continue;
    client = proxy.source();
    return true;
  }
  return false;
}

bool from_field(Exchange& exchange, const RealIpSettings& settings, IpAddress& client) {
  const http::FieldName id = http::parse_field_name(settings.header);
  const http::FieldList& fields = exchange.request().fields;
  ArenaVector<std::string_view> values;
  for (const http::Field& field : fields) {
    const bool same = id == http::FieldName::kOther
                          ? text::equals_ignore_case(field.name, settings.header)
                          : field.id == id;
    if (!same) continue;
    values.push_back(exchange.arena(), field.value);
    // Only X-Forwarded-For is a list in several lines; of others the first one counts.
    if (id != http::FieldName::kXForwardedFor) break;
  }
  return follow_forwarded(values, settings.trusted, settings.recursive, client);
}

class RealIpStep final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const auto& settings = exchange.settings<RealIpSettings>();
    auto& state = exchange.main().state<RealIpState>();
    if (state.changed) return StepOutcome::proceed();
    IpAddress client = exchange.client();
    state.changed = settings.header.empty() ? from_proxy_header(exchange, settings, client)
                                            : from_field(exchange, settings, client);
    if (state.changed) {
      exchange.set_client(client);
      if (exchange.is_subrequest()) exchange.main().set_client(client);
    }
    return StepOutcome::proceed();
  }
};

constexpr RealIpStep kStep;

const http::Step* make_step(const conf::SettingsView& settings, Arena&) {
  return settings.get<RealIpSettings>().trusted.empty() ? nullptr : &kStep;
}

constexpr http::StepFactory kFactories[] = {
    {http::Phase::kPostRead, make_step},
    {http::Phase::kPreaccess, make_step},
};

RealIpSettings& settings_of(const Setting& s) { return *static_cast<RealIpSettings*>(s.settings); }

// Names are resolved when the configuration is compiled, as nginx does; all of their addresses
// count.
bool add_name(const Setting& s, std::string_view name) {
  const auto addresses = io::resolve_all(name, 0);
  if (!addresses) return s.fail(0, "host not found in set_real_ip_from \"{}\"", name);
  for (const io::Address& address : *addresses) {
    settings_of(s).trusted.push_back(s.arena(),
                                     IpNetwork::of(IpAddress::from_sockaddr(address.get())));
  }
  return true;
}

bool set_from(const Setting& s) {
  RealIpSettings& settings = settings_of(s);
  if (s.first_here) settings.trusted = {};
  const std::string_view text = s.word(0);
  if (const auto network = IpNetwork::parse(text)) {
    settings.trusted.push_back(s.arena(), *network);
    return true;
  }
  if (text.empty() || text.find_first_of("/:") != std::string_view::npos)
    return s.fail(0, "invalid parameter \"{}\"", text);
  return add_name(s, text);
}

bool set_header(const Setting& s) {
  const std::string_view name = s.word(0);
  if (!http::is_token(name)) return s.fail(0, "invalid field name \"{}\"", name);
  settings_of(s).header =
      text::equals_ignore_case(name, kProxyProtocol) ? std::string_view() : name;
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "real_ip_header",
     .contexts = conf::kHttpServerLocation,
     .syntax = "field | X-Real-IP | X-Forwarded-For | proxy_protocol",
     .set = set_header,
     .default_value = "X-Real-IP",
     .doc = "Where trusted proxies say who the client is: a request field, or the PROXY header."},
    {.name = "real_ip_recursive",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&RealIpSettings::recursive>,
     .default_value = "off",
     .doc = "Whether the client is the last address that is not a trusted proxy's; else the last "
            "one that was reported."},
    {.name = "set_real_ip_from",
     .contexts = conf::kHttpServerLocation,
     .syntax = "address | network | name | unix:",
     .set = set_from,
     .inherit = conf::Inherit::kList,
     .doc = "Proxies that are believed. Names are resolved when the configuration is read."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<RealIpSettings>("real_ip", kDirectives);

expr::Value remote_addr(Exchange& exchange, std::string_view) {
  char text[IpAddress::kTextMax];
  return exchange.arena().copy(exchange.connection().peer.format(text));
}

expr::Value remote_port(Exchange& exchange, std::string_view) {
  const std::uint16_t port = exchange.connection().peer.port;
  if (port == 0) return std::string_view("");
  char text[8];
  const auto end = fmt::format_to(text, "{}", port);
  return exchange.arena().copy({text, static_cast<std::size_t>(end - text)});
}

constexpr expr::Variable kVariables[] = {
    {.name = "realip_remote_addr",
     .get = remote_addr,
     .doc = "The connection's own client address, whatever set_real_ip_from made of it."},
    {.name = "realip_remote_port", .get = remote_port, .doc = "The connection's own client port."},
};

}  // namespace

const conf::Module& real_ip_module() { return kModule; }
std::span<const http::StepFactory> real_ip_factories() { return kFactories; }
std::span<const expr::Variable> real_ip_variables() { return kVariables; }

}  // namespace corehttpd::access
