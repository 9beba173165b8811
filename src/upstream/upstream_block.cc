// The upstream block and its servers. (The other directives of the block: upstream_settings.cc.)
#include "upstream/upstream_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/upstream/peers.h"
#include "upstream/backends.h"
#include "upstream/dynamic_servers.h"
#include "upstream/hash_ring.h"

namespace corehttpd::upstream {

bool report(conf::Compiler& compiler, const conf::Position& at, std::string message,
            std::string help, std::size_t width) {
  compiler.diagnostics().add(conf::Severity::kError, at, std::move(message), std::move(help),
                             width);
  return false;
}

namespace {

// Splits "host:port"; false if the port is missing where it is required or is none.
bool split_host_port(std::string_view text, std::uint16_t default_port, std::string_view& host,
                     std::uint16_t& port) {
  const std::size_t colon = text.rfind(':');
  host = text.substr(0, colon);
  port = default_port;
  if (colon == std::string_view::npos) return default_port != 0;
  const auto number = text::parse_decimal(text.substr(colon + 1));
  if (!number || *number == 0 || *number > 65535) return false;
  port = static_cast<std::uint16_t>(*number);
  return !host.empty();
}

std::string not_found(std::string_view name) {
  return fmt::format("host not found in upstream \"{}\"", name);
}

// What is wrong with the address of a server, and how it would be right.
bool report_address(conf::Compiler& compiler, const conf::Position& at, std::string_view text,
                    std::uint16_t default_port) {
  const char* what = "invalid address";
  const char* help = "a server is given as address:port, name:port or unix:/path";
  const std::size_t colon = text.rfind(':');
  const std::string_view behind = text.substr(colon == text.npos ? text.size() : colon + 1);
  if (text.starts_with('*')) {
    what = "invalid host";
    help = "an address to connect to; on all addresses one can only listen";
  } else if (text.find("://") != std::string_view::npos) {
    help = "address:port or unix:/path, without a scheme before it";
  } else if (text.starts_with('/')) {
    what = "no port";
    help = "of a unix socket the path stands behind \"unix:\"";
  } else if (colon == std::string_view::npos && default_port == 0) {
    what = "no port";
    help = "there is no usual one: 127.0.0.1:9000";
  } else if (!behind.empty() && behind.find_first_not_of("0123456789") == behind.npos) {
    what = "invalid port";
    help = "ports go from 1 to 65535";
  }
  return report(compiler, at, fmt::format("{} in upstream \"{}\"", what, text), help, text.size());
}

// All directives of the block are known: the servers are final.
bool settle_group(conf::Compiler& compiler, OpenGroup& open) {
  Group& group = *open.group;
  const bool spares = group.balance == Balance::kRoundRobin || group.balance == Balance::kLeastConn;
  bool primary = false;
  for (const Peer& peer : open.peers) {
    primary |= !peer.backup;
    if (!peer.backup || spares) continue;
    return report(compiler, peer.at, "balancing method does not support parameter \"backup\"",
                  fmt::format("\"{}\" chooses among all servers", open.balance));
  }
  if (!primary) {
    return report(compiler, open.peers[0].at,
                  fmt::format("no servers are inside upstream \"{}\"", group.name),
                  "besides backup servers there has to be one that is none");
  }
  set_peers(compiler.arena(), group, open.peers);
  if (group.balance == Balance::kConsistentHash) {
    group.points = make_ring(compiler.arena(), group.peers);
  }
  return true;
}

// Servers whose names are looked up while we run.
bool settle_names(conf::Compiler& compiler, const conf::Scope& scope, Group& group) {
  const auto named =
      std::ranges::find_if(group.peers, [](const Peer& p) { return !p.host.empty(); });
  if (named == group.peers.end()) return true;
  const auto& settings = scope.view().get<ResolverSettings>();
  if (settings.resolver == nullptr) {
    return report(compiler, named->at,
                  fmt::format("no resolver defined to resolve names at run time in upstream \"{}\"",
                              group.name),
                  "\"resolver\" says which DNS servers are asked", named->server.size());
  }
  group.dynamic = compiler.arena().make<DynamicServers>(group, *settings.resolver, settings.timeout,
                                                        compiler.object_or_make<Backends>());
  return true;
}

bool close_group(conf::Compiler& compiler, conf::Scope& scope) {
  auto& open = *static_cast<OpenGroup*>(scope.object);
  if (open.peers.empty()) {
    return report(compiler, scope.node->name.at,
                  fmt::format("no servers are inside upstream \"{}\"", open.group->name),
                  "syntax: server address [parameters];", scope.node->name.text.size());
  }
  for (const Peer& peer : open.peers) {
    if (!peer.unresolved || !peer.host.empty()) continue;
    compiler.diagnostics().add(conf::Severity::kWarning, peer.at, not_found(peer.name),
                               "the group goes on without it; a reload tries again",
                               peer.name.size());
  }
  return settle_group(compiler, open) && settle_names(compiler, scope, *open.group);
}

}  // namespace

bool set_upstream(const conf::Setting& s) {
  Groups& groups = s.compiler.object_or_make<Groups>();
  if (groups.find(s.word(0)) != nullptr) {
    return s.fail(0, "duplicate upstream \"{}\"", s.word(0));
  }
  auto* open = s.arena().make<OpenGroup>();
  open->group = s.arena().make<Group>();
  open->group->name = s.arena().copy(s.word(0));
  groups.add(open->group);
  s.child->object = open;
  s.child->close = close_group;
  return true;
}

namespace {

bool read_count(const conf::Setting& s, std::size_t word, std::string_view value, std::uint32_t min,
                std::uint32_t& out) {
  const auto number = text::parse_decimal(value);
  if (!number || *number < min || *number > 1'000'000) {
    return s.fail(word, "invalid parameter \"{}\"", s.word(word));
  }
  out = static_cast<std::uint32_t>(*number);
  return true;
}

bool read_parameter(const conf::Setting& s, std::size_t i, Peer& peer, bool& resolve) {
  const std::string_view word = s.word(i);
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (equals == std::string_view::npos) {
    if (name == "backup") return peer.backup = true;
    if (name == "down") return peer.down = true;
    if (name == "resolve") return resolve = true;
    return s.fail(i, "invalid parameter \"{}\"", word);
  }
  const std::string_view value = word.substr(equals + 1);
  if (name == "weight") return read_count(s, i, value, 1, peer.weight);
  if (name == "max_fails") return read_count(s, i, value, 0, peer.max_fails);
  if (name == "max_conns" && value == "auto") return peer.automatic = true;
  if (name == "max_conns") {
    peer.automatic = false;
    return read_count(s, i, value, 0, peer.max_conns);
  }
  if (name == "fail_timeout") {
    const auto time = conf::parse_time_ms(value);
    if (!time) return s.fail(i, "invalid parameter \"{}\"", word);
    peer.fail_timeout = *time;
    return true;
  }
  if (name == "service") {
    s.warn(i, "the parameter \"{}\" has no effect", name);
    return true;
  }
  if (name == "slow_start" || name == "route") {
    return s.fail_text(i, fmt::format("invalid parameter \"{}\"", word),
                       "open-source nginx has no such parameter either");
  }
  return s.fail(i, "invalid parameter \"{}\"", word);
}

}  // namespace

bool set_server(const conf::Setting& s) {
  auto& open = *static_cast<OpenGroup*>(s.scope.object);
  Peer peer{.automatic = true};
  bool resolve = false;
  for (std::size_t i = 1; i < s.words().size(); ++i) {
    if (!read_parameter(s, i, peer, resolve)) return false;
  }
  // Only names need to be: addresses are what they are.
  if (resolve && !s.word(0).starts_with("unix:") && !io::parse_address(s.word(0), 80)) {
    if (const Result<io::HostPort> name = io::split_host_port(s.word(0), 80)) {
      peer.host = s.arena().copy(name->host);
      peer.port = name->port;
      peer.name = peer.server = s.arena().copy(s.word(0));
      peer.unresolved = true;
      peer.at = s.words()[0].at;
      open.peers.push_back(peer);
      return true;
    }
  }
  if (!parse_peers(s.compiler, s.words()[0].at, s.word(0), 80, peer, open.peers)) return false;
  if (open.peers.size() > Group::kPeersMax) {
    return s.fail(0, "more than {} servers in one upstream", Group::kPeersMax);
  }
  return true;
}

bool parse_peers(conf::Compiler& compiler, const conf::Position& at, std::string_view text,
                 std::uint16_t default_port, const Peer& base, std::vector<Peer>& out) {
  Arena& arena = compiler.arena();
  Peer peer = base;
  peer.at = at;
  if (text.starts_with("unix:")) {
    // nginx allows a URI behind the path, after a colon; protocols without URIs just end in it.
    const std::size_t colon = text.find(':', 5);
    text = text.substr(0, colon);
    if (text.size() == 5) return report(compiler, at, "no path in the unix domain socket");
  }
  peer.server = arena.copy(text);
  if (io::is_any_host(text)) return report_address(compiler, at, text, default_port);
  const Result<io::Address> numeric = io::parse_address(text, default_port);
  if (numeric) {
    peer.address = *numeric;
    peer.name = arena.copy(peer.address.to_string());
    out.push_back(peer);
    return true;
  }
  std::string_view host;
  std::uint16_t port = 0;
  if (numeric.error().code != Code::kNotFound || !split_host_port(text, default_port, host, port)) {
    return report_address(compiler, at, text, default_port);
  }
  const Result<std::vector<io::Address>> resolved = io::resolve_all(host, port);
  if (!resolved) {
    peer.name = peer.server;
    peer.unresolved = true;
    out.push_back(peer);
    return true;
  }
  for (const io::Address& address : *resolved) {
    peer.address = address;
    peer.name = arena.copy(address.to_string());
    out.push_back(peer);
  }
  return true;
}

void report_unresolved(conf::Compiler& compiler, const conf::Scope& scope, const conf::Position& at,
                       const Group& group) {
  for (const Peer& peer : group.peers) {
    if (!peer.unresolved || !peer.host.empty()) return;
  }
  compiler.degrade_site(scope, conf::SiteFault::Kind::kBackend, at, not_found(group.peers[0].name),
                        group.name.size());
}

}  // namespace corehttpd::upstream
