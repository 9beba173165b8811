// Which site and location answers: listen, server, server_name, location. Published as an object of the configuration.
#pragma once

#include <span>
#include <string_view>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/pipeline.h"
#include "corehttpd/http/site.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::route {

// One address to bind; the master does. endpoint.index is its place in Tree::listeners().
struct Listener {
  io::Address address;
  io::ListenOptions options;
  http::Endpoint endpoint;
  conf::Position at;          // Where it was written, for errors of bind().
};

class Tree final : public http::SiteSelector {
 public:
  std::span<Listener> listeners();
  std::span<const http::Site* const> sites() const;
  const http::Site& default_site(const http::Endpoint& endpoint) const override;
  const http::Site& select_site(const http::Endpoint& endpoint, std::string_view host, http::Exchange& exchange) const override;
  http::LocationMatch find_location(http::Exchange& exchange) const override;
  bool find_named_location(http::Exchange& exchange, std::string_view name) const override;
  struct Data;

 private:
  friend struct Data;
  Data* data_ = nullptr;
};

// http, server, location, listen, server_name, if/limit_except blocks' scopes…
const conf::Module& route_module();
// Which factories make steps, in the order of the server's list: call before compile(); pipelines are built by route's finish().
void set_step_factories(conf::Compiler& compiler, std::span<const http::StepFactory> factories);

}  // namespace corehttpd::route
