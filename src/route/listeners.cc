// Gathers the listen directives of all servers by address, decides which sockets are bound, and
// makes the tables of names.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "route/builder.h"

namespace corehttpd::route {
namespace {

struct AddressBuild {
  io::Address address;
  std::string text;
  std::vector<ServerBuild*> servers;
  ServerBuild* default_server = nullptr;  // Of "default_server"; else the first.
  io::ListenOptions options;
  bool options_set = false;
  bool bind = false;
  bool tls = false;
  bool proxy_protocol = false;
  conf::Position at;  // Of what set the options, else the first.
  conf::Position last_at;
  conf::Position default_at;

  const SiteData* default_site() const {
    return (default_server != nullptr ? default_server : servers.front())->site;
  }
};

class ListenerBuilder {
 public:
  ListenerBuilder(conf::Compiler& compiler, Builder& builder)
      : compiler_(compiler), arena_(compiler.arena()), builder_(builder) {}

  void run(Tree::Data& data) {
    for (ServerBuild* server : builder_.servers) {
      if (server->listens.empty()) server->listens.push_back(standard(*server));
      for (const ListenBuild& listen : server->listens) {
        // QUIC has its own sockets: it does not make the TCP address a TLS one.
        if (listen.quic) continue;
        for (const io::Address& address : listen.addresses) add(*server, listen, address);
      }
    }
    for (const AddressBuild& address : addresses_) {
      for (ServerBuild* server : address.servers) server->over_tls |= address.tls;
    }
    if (compiler_.diagnostics().errors() != 0) return;
    for (AddressBuild& address : addresses_) place(address);
    data.listeners = arena_.make_array<Listener>(listeners_.size());
    data.by_listener = arena_.make_array<ListenerSites>(listeners_.size());
    for (std::size_t i = 0; i < listeners_.size(); ++i) make(i, data);
  }

 private:
  // A server without listen.
  static ListenBuild standard(const ServerBuild& server) {
    ListenBuild listen;
    const auto address = io::parse_address(::geteuid() == 0 ? "*:80" : "*:8000", 0);
    listen.addresses.push_back(*address);
    listen.at = server.at;
    return listen;
  }

  bool fail(const ListenBuild& listen, std::string message, const conf::Position& first) {
    compiler_.diagnostics().add(
        conf::Severity::kError, listen.at, std::move(message),
        fmt::format("the first is in {}:{}:{}", first.file, first.line, first.column),
        listen.width);
    return false;
  }

  bool add(ServerBuild& server, const ListenBuild& listen, const io::Address& address) {
    std::string text = address.to_string();
    const auto [known, added] = by_text_.try_emplace(text, addresses_.size());
    if (added) addresses_.push_back({.address = address, .text = std::move(text), .at = listen.at});
    AddressBuild& one = addresses_[known->second];
    if (!one.servers.empty() && one.servers.back() == &server) {
      return fail(listen, fmt::format("a duplicate listen {}", one.text), one.last_at);
    }
    one.servers.push_back(&server);
    one.last_at = listen.at;
    one.tls |= listen.tls;
    // As nginx: what one of an address's servers asks for holds for all of them.
    one.proxy_protocol |= listen.proxy_protocol;
    if (listen.options_set) {
      if (one.options_set) {
        return fail(listen, fmt::format("duplicate listen options for {}", one.text), one.at);
      }
      one.options_set = true;
      one.options = listen.options;
      one.bind = listen.bind;
      one.at = listen.at;
    }
    if (listen.default_server) {
      if (one.default_server != nullptr) {
        return fail(listen, fmt::format("a duplicate default server for {}", one.text),
                    one.default_at);
      }
      one.default_server = &server;
      one.default_at = listen.at;
    }
    return true;
  }

  struct Socket {
    AddressBuild* own;
    std::vector<AddressBuild*> sharing;
  };

  // Gives an address a socket, or a place at its wildcard's.
  void place(AddressBuild& address) {
    if (AddressBuild* wildcard = wildcard_of(address); wildcard != nullptr && !address.bind) {
      socket_of(*wildcard).sharing.push_back(&address);
    } else {
      socket_of(address);
    }
  }

  Socket& socket_of(AddressBuild& address) {
    for (Socket& socket : listeners_) {
      if (socket.own == &address) return socket;
    }
    listeners_.push_back({&address, {}});
    return listeners_.back();
  }

  // The wildcard that also takes this specific address's connections.
  AddressBuild* wildcard_of(const AddressBuild& address) {
    if (address.address.is_unix() || address.address.is_wildcard()) return nullptr;
    const char* const host = address.address.family() == AF_INET6 ? "[::]" : "0.0.0.0";
    const auto found = by_text_.find(fmt::format("{}:{}", host, address.address.port()));
    if (found == by_text_.end()) return nullptr;
    return &addresses_[found->second];
  }

  AddressSites sites_of(const AddressBuild& address) {
    return build_names(compiler_, address.servers, address.default_site(), address.text);
  }

  void make(std::size_t index, Tree::Data& data) {
    const Socket& socket = listeners_[index];
    Listener& listener = data.listeners[index];
    listener.address = socket.own->address;
    listener.options = socket.own->options;
    listener.at = socket.own->at;
    listener.endpoint.address = IpAddress::from_sockaddr(socket.own->address.get());
    listener.endpoint.text = arena_.copy(socket.own->text);
    listener.endpoint.http2 = socket.own->default_site()->settings.get<Settings>().http2;
    listener.endpoint.tls = socket.own->tls;
    listener.endpoint.proxy_protocol = socket.own->proxy_protocol;
    listener.endpoint.index = static_cast<std::uint32_t>(index);
    ListenerSites& sites = data.by_listener[index];
    sites.any = sites_of(*socket.own);
    std::vector<SpecificAddress> specific;
    std::vector<IpAddress> exceptions;
    std::vector<IpAddress> tls_exceptions;
    for (const AddressBuild* one : socket.sharing) {
      const IpAddress address = IpAddress::from_sockaddr(one->address.get());
      specific.push_back({address, sites_of(*one)});
      if (one->proxy_protocol != socket.own->proxy_protocol) exceptions.push_back(address);
      if (one->tls != socket.own->tls) tls_exceptions.push_back(address);
    }
    sites.specific = to_arena(arena_, specific);
    listener.endpoint.proxy_protocol_exceptions = to_arena(arena_, exceptions);
    listener.endpoint.tls_exceptions = to_arena(arena_, tls_exceptions);
  }

  conf::Compiler& compiler_;
  Arena& arena_;
  Builder& builder_;
  std::vector<AddressBuild> addresses_;
  std::unordered_map<std::string, std::size_t> by_text_;
  std::vector<Socket> listeners_;
};

}  // namespace

void build_listeners(conf::Compiler& compiler, Builder& builder, Tree::Data& data) {
  ListenerBuilder(compiler, builder).run(data);
}

}  // namespace corehttpd::route
