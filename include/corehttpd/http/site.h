// What the router gives to the rest: endpoints, sites, locations. Made when the configuration is
// compiled, immutable after.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/ip_address.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::http {

class Exchange;
class Step;

// Steps of a location (or of a server's rewrite phase) in nginx's phase order. Only what is
// configured is in it.
struct Pipeline {
  std::span<const Step* const> steps;
};

struct Location {
  conf::SettingsView settings;
  Pipeline pipeline;
  std::string_view name;  // As written: "/images/", "@php"; for logs and $document_root-like needs.
  bool exact = false;     // "=".
  bool regex = false;     // "~" or "~*": the match has captures.
  bool named = false;     // "@".
  bool internal = false;  // The internal directive.
};

struct Site {
  conf::SettingsView settings;  // Of the server block.
  Pipeline rewrite;       // Server-level rewrite-phase steps; run before a location is looked for.
  std::string_view name;  // First server_name: $server_name, logs.
  bool http2 = true;      // Offered over TLS.
};

// A listening address and what was said of it.
struct Endpoint {
  IpAddress address;      // kUnix for unix sockets.
  std::string_view text;  // "0.0.0.0:80", "unix:/run/x": $server_addr falls back to it.
  bool tls = false;
  bool http2 = false;  // h2 with prior knowledge is recognized on cleartext endpoints (design: on
                       // by default there too).
  // Connections begin with a PROXY header.
  bool proxy_protocol = false;
  // Specific addresses that share this wildcard's socket and for which the contrary holds.
  std::span<const IpAddress> proxy_protocol_exceptions = {};
  std::span<const IpAddress> tls_exceptions = {};
  std::uint32_t index = 0;  // Place among the configuration's endpoints: the router's key.
};

enum class LocationMatch : std::uint8_t {
  kFound,     // Exchange::location() is set.
  kNone,      // No location at all matches: the server block's own settings and content steps apply
              // (also set).
  kAddSlash,  // nginx's auto redirect: "location /dir/ { *_pass }" asked as "/dir": 301 to the name
              // with slash.
};

// Implemented by route, called by Exchange.
class SiteSelector {
 public:
  // Before a host is known: limits of reading a head come from here.
  virtual const Site& default_site(const Endpoint& endpoint) const = 0;
  // host: lower case, without port and trailing dot; may be empty. Sets captures of a regex server
  // name on the exchange.
  virtual const Site& select_site(const Endpoint& endpoint, std::string_view host,
                                  Exchange& exchange) const = 0;
  // The same before there is a request: by the name in a TLS client's hello, which came to local.
  virtual const Site& site_by_name(const Endpoint& endpoint, const IpAddress& local,
                                   std::string_view name) const {
    static_cast<void>(local);
    static_cast<void>(name);
    return default_site(endpoint);
  }
  // By exchange.uri(). Calls exchange.set_location().
  virtual LocationMatch find_location(Exchange& exchange) const = 0;
  // "@name" of the exchange's site; false if there is none.
  virtual bool find_named_location(Exchange& exchange, std::string_view name) const = 0;

 protected:
  ~SiteSelector() = default;
};

}  // namespace corehttpd::http
