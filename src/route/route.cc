// The directives of this module, http and server blocks, and what is made of them at the end.
#include "corehttpd/conf/values.h"
#include "corehttpd/http/core_settings.h"
#include "route/builder.h"

namespace corehttpd::route {
namespace {

using conf::Context;

bool open_http(const conf::Setting& s) {
  return s.compiler.object_or_make<Builder>().has_http = true;
}

bool open_server(const conf::Setting& s) {
  ServerBuild* const server = s.arena().make<ServerBuild>();
  server->site = s.arena().make<SiteData>();
  server->scope = s.child;
  server->at = s.node.name.at;
  s.child->object = server;
  s.compiler.object_or_make<Builder>().servers.push_back(server);
  return true;
}

// What messages and a reload know a site by.
conf::Site identity_of(Arena& arena, const ServerBuild& server) {
  conf::Site site;
  std::vector<std::string_view> addresses;
  std::vector<std::string_view> names;
  for (const ListenBuild& listen : server.listens) {
    if (listen.tls && site.tls_at.line == 0) {
      site.tls_at = listen.at;
      site.tls_width = static_cast<std::uint32_t>(listen.width);
    }
    for (const io::Address& address : listen.addresses) {
      addresses.push_back(arena.copy(address.to_string()));
    }
  }
  if (server.over_tls && site.tls_at.line == 0) {
    site.tls_at = server.listens.front().at;
    site.tls_width = static_cast<std::uint32_t>(server.listens.front().width);
  }
  for (const ServerName& name : server.names) names.push_back(name.text);
  site.addresses = to_arena(arena, addresses);
  site.names = to_arena(arena, names);
  site.name = !server.site->name.empty() || addresses.empty() ? server.site->name : addresses[0];
  site.scope = server.scope;
  return site;
}

void finish(conf::Compiler& compiler) {
  Builder& builder = compiler.object_or_make<Builder>();
  Arena& arena = compiler.arena();
  if (!builder.has_http) return;  // No tree: the server says so.
  Tree::Data* const data = arena.make<Tree::Data>();
  for (ServerBuild* server : builder.servers) {
    SiteData& site = *server->site;
    site.settings = server->scope->view();
    site.fallback.settings = site.settings;
    site.http2 = site.settings.get<Settings>().http2;
    if (server->names.empty()) server->names.push_back({.at = server->at});
    std::string_view name = server->names.front().text;
    if (server->names.front().regex == nullptr && name.starts_with('.')) name.remove_prefix(1);
    site.name = name;
  }
  build_locations(compiler, builder);
  warn_of_traps(compiler, builder);
  build_listeners(compiler, builder, *data);
  build_pipelines(compiler, builder);
  for (const ServerBuild* server : builder.servers) {
    compiler.configuration().sites().add(identity_of(arena, *server));
  }
  const auto sites = arena.make_array<const http::Site*>(builder.servers.size());
  for (std::size_t i = 0; i < sites.size(); ++i) sites[i] = builder.servers[i]->site;
  data->sites = sites;
  Tree::Data::publish(compiler.object_or_make<Tree>(), data);
  // The builder's own memory would otherwise stay as long as the configuration.
  for (ServerBuild* server : builder.servers) {
    *server = {};
  }
  for (LocationBuild* location : builder.locations) location->nested = {};
  builder = {};
}

constexpr conf::Directive kDirectives[] = {
    {.name = "http",
     .contexts = Context::kMain,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(0),
     .set = open_http,
     .doc = "Holds the HTTP servers and what they have in common.",
     .opens = Context::kHttp},
    {.name = "http2",
     .contexts = Context::kHttp | Context::kServer,
     .syntax = "on | off",
     .set = conf::set_flag<&Settings::http2>,
     .default_value = "on",
     .doc = "Whether HTTP/2 is spoken: by ALPN over TLS, with prior knowledge on cleartext "
            "listeners, where the default server of an address decides. On by default, unlike "
            "nginx."},
    {.name = "http3",
     .contexts = Context::kHttp | Context::kServer,
     .syntax = "on | off",
     .set = conf::set_flag<&Settings::http3>,
     .default_value = "on",
     .doc = "Whether HTTP/3 is offered on TLS sites."},
    {.name = "listen",
     .contexts = Context::kServer,
     .arity = conf::at_least(1),
     .syntax =
         "address[:port] | port | unix:path [default_server] [proxy_protocol] [bind] "
         "[backlog=number] [rcvbuf=size] [sndbuf=size] [deferred] [fastopen=number] [reuseport] "
         "[ipv6only=on|off] [so_keepalive=on|off|[idle]:[interval]:[probes]] …",
     .set = set_listen,
     .inherit = conf::Inherit::kNone,
     .doc = "An address that the server answers on. Without any: *:80, or *:8000 when not started "
            "by root. backlog is the system's largest (somaxconn) if not given. All workers accept "
            "from one socket per address, so that reuseport only lets other programs share the "
            "port. An address that this machine does not have is served when it appears. setfib "
            "and accept_filter have no meaning on Linux."},
    {.name = "location",
     .contexts = Context::kServer | Context::kLocation,
     .kind = conf::Kind::kBlock,
     .arity = conf::between(1, 2),
     .syntax = "[= | ~ | ~* | ^~] uri | @name",
     .set = open_location,
     .inherit = conf::Inherit::kNone,
     .doc = "Settings for the URIs that it matches.",
     .opens = Context::kLocation},
    {.name = "server",
     .contexts = Context::kHttp,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(0),
     .set = open_server,
     .inherit = conf::Inherit::kNone,
     .doc = "A site: its addresses, names and locations.",
     .opens = Context::kServer},
    {.name = "server_name",
     .contexts = Context::kServer,
     .arity = conf::at_least(1),
     .syntax = "name …",
     .set = set_server_name,
     .inherit = conf::Inherit::kNone,
     .doc = "Names of the site: exact, *.example.org, .example.org, www.example.*, or a regular "
            "expression after \"~\"; the first is $server_name."},
    {.name = "server_names_hash_bucket_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Tables of server names size themselves."},
    {.name = "server_names_hash_max_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Tables of server names size themselves."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<Settings>("route", kDirectives, finish);

}  // namespace

const conf::Module& route_module() { return kModule; }

void set_step_factories(conf::Compiler& compiler, std::span<const http::StepFactory> factories) {
  compiler.object_or_make<Builder>().factories = factories;
}

}  // namespace corehttpd::route
