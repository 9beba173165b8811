// Which site and location answers: listen, server, server_name, location. Published as an object of
// the configuration.
#pragma once

#include <span>
#include <string_view>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/pipeline.h"
#include "corehttpd/http/site.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::route {

// One address to bind; the master does. endpoint.index is its place in Tree::listeners(). A
// specific address whose port is also listened on by the wildcard has no socket of its own (unless
// "bind" or a socket option asks for one): sites are then chosen by the connection's local address.
struct Listener {
  io::Address address;
  io::ListenOptions options;
  http::Endpoint endpoint;
  conf::Position at;  // Where it was written, for errors of bind().
};

class Tree final : public http::SiteSelector {
 public:
  std::span<Listener> listeners();
  std::span<const http::Site* const> sites() const;
  const http::Site& default_site(const http::Endpoint& endpoint) const override;
  // Exact name, longest "*.name", longest "name.*", first regex, else the address's default.
  const http::Site& select_site(const http::Endpoint& endpoint, std::string_view host,
                                http::Exchange& exchange) const override;
  const http::Site& site_by_name(const http::Endpoint& endpoint, const IpAddress& local,
                                 std::string_view name) const override;
  // nginx's order: "=", then the longest prefix; within it its nested locations; unless it is "^~"
  // the first regex beside it. kNone: the server block itself, as a location without a name.
  http::LocationMatch find_location(http::Exchange& exchange) const override;
  bool find_named_location(http::Exchange& exchange, std::string_view name) const override;
  // The location that answers uri on a site of this tree, for who looks at a configuration without
  // a request; nullptr: none. uri: decoded and normalized.
  const http::Location* locate(const http::Site& site, std::string_view uri) const;
  struct Data;

 private:
  friend struct Data;
  Data* data_ = nullptr;
};

// Of a server block, in part inherited from http.
struct Settings {
  bool http2 = true;  // Also h2 with prior knowledge on cleartext listeners.
  bool http3 = true;
};

// http, server, location, listen, server_name, http2, http3.
const conf::Module& route_module();
// Which factories make steps, in the order of the server's list: call before compile(); pipelines
// are built by route's finish(), which must come after expr's. The span must live as long as the
// configuration is being compiled.
void set_step_factories(conf::Compiler& compiler, std::span<const http::StepFactory> factories);
// Tells that word, if it is "@name", has to be a location of the server around the setting: one
// that does not exist is warned of.
void expect_named_location(const conf::Setting& setting, std::size_t word);
// For blocks that act as a location of their own within one ("if", "limit_except"), opened as inner
// by another module: what Exchange::enter_inner_location() takes. Its pipeline has the steps of the
// phases after kRewrite and is there when route's finish() is done.
http::Location* open_inner_location(conf::Compiler& compiler, conf::Scope& inner);

}  // namespace corehttpd::route
