// What is gathered while a configuration is compiled; finish() turns it into the Tree and lets it
// go.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/expr/text_table.h"
#include "corehttpd/route/tree.h"
#include "route/location_tree.h"

namespace corehttpd::route {

struct ServerBuild;

struct LocationBuild {
  LocationNode* node = nullptr;
  conf::Scope* scope = nullptr;
  LocationBuild* parent = nullptr;  // nullptr: on the server's own level.
  ServerBuild* server = nullptr;
  conf::Position at;
  conf::Position name_at;
  std::size_t name_width = 1;
  bool ignore_case = false;  // "~*".
  std::vector<LocationBuild*> nested;
};

// One listen directive of one server.
struct ListenBuild {
  std::vector<io::Address> addresses;
  io::ListenOptions options;
  bool options_set = false;  // Something of the socket was asked for: nginx's "set".
  bool bind = false;         // A socket of its own although the wildcard would do.
  bool default_server = false;
  bool tls = false;
  bool quic = false;
  bool proxy_protocol = false;
  conf::Position at;
  std::size_t width = 1;
};

struct ServerName {
  std::string_view text;  // Lower case; of a regex as written, with its '~'.
  const expr::Regex* regex = nullptr;
  conf::Position at;
  std::size_t width = 1;
};

struct SiteData : http::Site {
  const LocationLevel* level = nullptr;  // nullptr: no locations.
  std::span<const LocationNode* const> named;
  http::Location fallback;  // The server block itself.
};

struct ServerBuild {
  SiteData* site = nullptr;
  conf::Scope* scope = nullptr;
  conf::Position at;
  std::vector<ListenBuild> listens;
  bool over_tls = false;  // Some address of it has TLS, by its own listen or by another server's.
  std::vector<ServerName> names;
  std::vector<LocationBuild*> locations;
};

struct InnerBuild {
  http::Location* location;
  conf::Scope* scope;
};

// A named location that a directive sends requests to.
struct ExpectedLocation {
  const conf::Scope* scope;
  std::string_view name;
  conf::Position at;
  std::size_t width;
};

struct Builder {
  bool has_http = false;  // There is an http block.
  std::vector<ServerBuild*> servers;
  std::vector<LocationBuild*> locations;  // All, nested ones too.
  std::vector<InnerBuild> inner;
  std::vector<ExpectedLocation> expected;
  std::span<const http::StepFactory> factories;
};

// An address with the sites that listen on it, and how they are told apart by name.
struct RegexName {
  const expr::Regex* regex = nullptr;
  const SiteData* site = nullptr;
};
struct NameTable {
  expr::HostTable hosts;  // Values are places in sites.
  std::span<const SiteData* const> sites;
  std::span<const RegexName> regexes;
};
struct AddressSites {
  const SiteData* default_site = nullptr;
  const NameTable* names = nullptr;  // nullptr: one site, to which all names lead.
};
struct SpecificAddress {
  IpAddress address;
  AddressSites sites;
};
struct ListenerSites {
  AddressSites any;
  std::span<const SpecificAddress> specific;  // Addresses that share the wildcard's socket.
};

struct Tree::Data {
  std::span<Listener> listeners;
  std::span<ListenerSites> by_listener;
  std::span<const http::Site* const> sites;
  static void publish(Tree& tree, Data* data) { tree.data_ = data; }
};

// Setters.
bool open_location(const conf::Setting& setting);
bool set_listen(const conf::Setting& setting);
bool set_server_name(const conf::Setting& setting);

// The steps of finish().
void build_locations(conf::Compiler& compiler, Builder& builder);
void build_listeners(conf::Compiler& compiler, Builder& builder, Tree::Data& data);
void build_pipelines(conf::Compiler& compiler, Builder& builder);
// Warnings of what is allowed but surely not meant.
void warn_of_traps(conf::Compiler& compiler, const Builder& builder);
// Names of the servers that listen on one address. at: text of that address, for warnings.
AddressSites build_names(conf::Compiler& compiler, std::span<ServerBuild* const> servers,
                         const SiteData* default_site, std::string_view at);

template <class T>
std::span<const T> to_arena(Arena& arena, const std::vector<T>& items) {
  const std::span<T> made = arena.make_array<T>(items.size());
  std::copy(items.begin(), items.end(), made.begin());
  return made;
}

}  // namespace corehttpd::route
