// The resolver directives. (Asking: name_cache.cc.)
#include "corehttpd/upstream/resolver.h"

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "upstream/name_cache.h"

namespace corehttpd::upstream {
namespace {

// A DNS server; of a name, which is resolved at start, all addresses.
bool add_server(const conf::Setting& s, std::size_t i, std::string& servers) {
  constexpr std::uint16_t kPort = 53;
  const std::string_view text = s.word(i);
  std::vector<io::Address> addresses;
  if (const Result<io::Address> numeric = io::parse_address(text, kPort)) {
    addresses.push_back(*numeric);
  } else {
    const Result<io::HostPort> named = io::split_host_port(text, kPort);
    if (!named) return s.fail(i, "invalid address in resolver \"{}\"", text);
    const Result<std::vector<io::Address>> found = io::resolve_all(named->host, named->port);
    if (!found) return s.fail(i, "host not found in resolver \"{}\"", text);
    addresses = *found;
  }
  for (const io::Address& address : addresses) {
    if (address.is_unix() || address.is_wildcard()) {
      return s.fail(i, "invalid address in resolver \"{}\"", text);
    }
    servers.append(servers.empty() ? "" : ",").append(address.to_string());
  }
  return true;
}

bool set_resolver(const conf::Setting& s) {
  Resolver* resolver = s.arena().make<Resolver>();
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (equals == std::string_view::npos) {
      if (!add_server(s, i, resolver->servers)) return false;
      continue;
    }
    const std::string_view value = word.substr(equals + 1);
    if (name == "valid") {
      resolver->valid = conf::parse_time_ms(value);
      if (!resolver->valid) return s.fail(i, "invalid parameter: {}", word);
    } else if (name == "ipv4" || name == "ipv6") {
      if (value != "on" && value != "off") return s.fail(i, "invalid parameter: {}", word);
      (name == "ipv4" ? resolver->ipv4 : resolver->ipv6) = value == "on";
    } else if (name == "status_zone") {
      s.warn(i, "the parameter \"{}\" has no effect", name);
    } else {
      return s.fail(i, "invalid parameter: {}", word);
    }
  }
  if (!resolver->ipv4 && !resolver->ipv6) {
    return s.fail(0, "\"ipv4\" and \"ipv6\" cannot both be \"off\"");
  }
  if (resolver->servers.empty()) return s.fail(0, "no name servers defined");
  static_cast<ResolverSettings*>(s.settings)->resolver = resolver;
  return true;
}

constexpr conf::Context kContexts = conf::kHttpServerLocation | conf::Context::kUpstream;

constexpr conf::Directive kDirectives[] = {
    {.name = "resolver",
     .contexts = kContexts,
     .arity = conf::at_least(1),
     .syntax = "address ... [valid=time] [ipv4=on | off] [ipv6=on | off] [status_zone=zone]",
     .set = set_resolver,
     .doc = "DNS servers, port 53 unless given, that are asked for names which are known only "
            "while we run: of *_pass with variables, and of servers with resolve. Answers are kept "
            "as long as their TTL says, or valid=. Several servers are asked in turn."},
    {.name = "resolver_timeout",
     .contexts = kContexts,
     .syntax = "time",
     .set = conf::set_time<&ResolverSettings::timeout>,
     .default_value = "30s",
     .doc = "How long a request waits for a name."},
};
static_assert(conf::well_formed(kDirectives));

}  // namespace

std::string_view describe_name_failure(int code) {
  switch (code) {
    case 1:
      return "Format error";
    case 2:
      return "Server failure";
    case NameAnswer::kNotFound:
      return "Host not found";
    case 4:
      return "Unimplemented";
    case 5:
      return "Operation refused";
    case NameAnswer::kTimedOut:
      return "Operation timed out";
    default:
      return "Unknown error";
  }
}

const NameAnswer* Resolver::look_up(io::Loop& loop, std::string_view name,
                                    NameWaiter& waiter) const {
  // Never destroyed: it is the worker's, whose end closes everything.
  if (cache == nullptr) cache = new NameCache(loop, *this);
  return cache->look_up(name, waiter);
}

const conf::Module& resolver_module() {
  static constexpr conf::Module kModule = conf::module<ResolverSettings>("resolver", kDirectives);
  return kModule;
}

}  // namespace corehttpd::upstream
