// What else stands in an upstream block, and the table of rows.
#include <fmt/format.h>

#include <algorithm>

#include "corehttpd/base/log.h"
#include "corehttpd/base/text.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/upstream/settings.h"
#include "upstream/backends.h"
#include "upstream/shared_state.h"
#include "upstream/upstream_block.h"

namespace corehttpd::upstream {
namespace {

struct NoSettings {};

OpenGroup& open_of(const conf::Setting& s) { return *static_cast<OpenGroup*>(s.scope.object); }

bool choose(const conf::Setting& s, Balance balance) {
  OpenGroup& open = open_of(s);
  if (!open.balance.empty() && open.balance != s.name()) {
    s.warn(conf::Setting::kWholeDirective, "load balancing method redefined");
  }
  open.balance = s.name();
  open.group->balance = balance;
  return true;
}

bool set_least_conn(const conf::Setting& s) { return choose(s, Balance::kLeastConn); }
bool set_ip_hash(const conf::Setting& s) { return choose(s, Balance::kIpHash); }

bool set_hash(const conf::Setting& s) {
  const bool consistent = s.words().size() == 2;
  if (consistent && s.word(1) != "consistent") {
    return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  }
  if (!expr::read_program(s, 0, open_of(s).group->key)) return false;
  return choose(s, consistent ? Balance::kConsistentHash : Balance::kHash);
}

bool set_random(const conf::Setting& s) {
  if (s.words().empty()) return choose(s, Balance::kRandom);
  if (s.word(0) != "two") return s.fail(0, "invalid parameter \"{}\"", s.word(0));
  if (s.words().size() == 2 && s.word(1) != "least_conn") {
    return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  }
  return choose(s, Balance::kRandomTwo);
}

bool set_zone(const conf::Setting& s) {
  constexpr std::uint64_t kSmallest = 32 * 1024;
  if (s.word(0).empty()) return s.fail(0, "invalid zone name \"{}\"", s.word(0));
  if (s.words().size() == 2) {
    const auto size = conf::parse_size(s.word(1));
    if (!size || *size == 0) return s.fail(1, "invalid zone size \"{}\"", s.word(1));
    if (*size < kSmallest) return s.fail(1, "zone \"{}\" is too small", s.word(0));
  }
  s.compiler.object_or_make<SharedState>().add_zone(*open_of(s).group);
  return true;
}

bool set_keepalive(const conf::Setting& s) {
  OpenGroup& open = open_of(s);
  std::uint64_t number = 0;
  if (!conf::read_number(s, 0, 0, INT32_MAX, number)) return false;
  if (number == 0) return s.fail(0, "invalid value \"{}\" in \"keepalive\" directive", s.word(0));
  if (s.words().size() == 2 && s.word(1) != "local") {
    return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  }
  open.group->keepalive.connections = static_cast<std::uint32_t>(number);
  return true;
}

bool set_keepalive_requests(const conf::Setting& s) {
  std::uint64_t number = 0;
  if (!conf::read_number(s, 0, 0, INT32_MAX, number)) return false;
  open_of(s).group->keepalive.requests = static_cast<std::uint32_t>(number);
  return true;
}
bool set_keepalive_time(const conf::Setting& s) {
  return conf::read_time(s, 0, open_of(s).group->keepalive.time);
}
bool set_keepalive_timeout(const conf::Setting& s) {
  return conf::read_time(s, 0, open_of(s).group->keepalive.timeout);
}

bool set_queue(const conf::Setting& s) {
  Group& group = *open_of(s).group;
  std::uint64_t number = 0;
  if (!detail::read_queue(s, 1, number, group.queue_timeout)) return false;
  group.queue_max = static_cast<std::uint32_t>(number);
  return true;
}

bool set_pool_files(const conf::Setting& s) {
  auto& patterns = s.compiler.object_or_make<Backends>().patterns;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    if (s.word(i) == "off" && s.words().size() > 1) {
      return s.fail(i, "\"off\" stands alone");
    }
    patterns.emplace_back(s.compiler.full_path(s.word(i)));
  }
  if (s.word(0) == "off") patterns.assign(1, "");
  return true;
}

using conf::Context;

constexpr conf::Directive kDirectives[] = {
    {.name = "fastcgi_pool_files",
     .contexts = Context::kHttp,
     .arity = conf::at_least(1),
     .syntax = "pattern ... | off",
     .set = set_pool_files,
     .inherit = conf::Inherit::kNone,
     .doc = "The pool files of php-fpm, read once at start, /etc/php/*/fpm/pool.d/*.conf unless "
            "given: to a socket that one of them listens on no more connections are made than its "
            "pm.max_children says, by all workers together, and they are used again. Further "
            "requests wait; see fastcgi_queue."},
    {.name = "hash",
     .contexts = Context::kUpstream,
     .arity = conf::between(1, 2),
     .syntax = "key [consistent]",
     .set = set_hash,
     .inherit = conf::Inherit::kNone,
     .doc = "Chooses servers by a key, which may have variables; consistent: on a ring of points, "
            "so that few keys change their server when servers come and go."},
    {.name = "ip_hash",
     .contexts = Context::kUpstream,
     .arity = conf::exactly(0),
     .set = set_ip_hash,
     .inherit = conf::Inherit::kNone,
     .doc = "Chooses servers by the client's address, of IPv4 by its first three bytes."},
    {.name = "keepalive",
     .contexts = Context::kUpstream,
     .arity = conf::between(1, 2),
     .syntax = "connections [local]",
     .set = set_keepalive,
     .inherit = conf::Inherit::kNone,
     .doc = "How many idle connections to the group's servers each worker keeps for further "
            "requests. FastCGI needs fastcgi_keep_conn on as well. Backends of known capacity "
            "(fastcgi_pool_files) have a pool of their own."},
    {.name = "keepalive_requests",
     .contexts = Context::kUpstream,
     .syntax = "number",
     .set = set_keepalive_requests,
     .inherit = conf::Inherit::kNone,
     .doc = "How many requests one connection to a server carries; 1000 unless given."},
    {.name = "keepalive_time",
     .contexts = Context::kUpstream,
     .syntax = "time",
     .set = set_keepalive_time,
     .inherit = conf::Inherit::kNone,
     .doc = "How long a connection to a server is used; 1h unless given."},
    {.name = "keepalive_timeout",
     .contexts = Context::kUpstream,
     .syntax = "time",
     .set = set_keepalive_timeout,
     .inherit = conf::Inherit::kNone,
     .doc = "How long a connection to a server may be idle; 60s unless given."},
    {.name = "least_conn",
     .contexts = Context::kUpstream,
     .arity = conf::exactly(0),
     .set = set_least_conn,
     .inherit = conf::Inherit::kNone,
     .doc = "Chooses the server with the fewest connections for its weight."},
    {.name = "queue",
     .contexts = Context::kUpstream,
     .arity = conf::between(1, 2),
     .syntax = "number [timeout=time]",
     .set = set_queue,
     .inherit = conf::Inherit::kNone,
     .doc = "How many requests of each worker may wait for a server that has max_conns "
            "connections, and for how long (60s); further ones are answered with 503. Without it "
            "a server that is full is passed over, unless its capacity is known by itself "
            "(fastcgi_pool_files)."},
    {.name = "random",
     .contexts = Context::kUpstream,
     .arity = conf::between(0, 2),
     .syntax = "[two [least_conn]]",
     .set = set_random,
     .inherit = conf::Inherit::kNone,
     .doc = "Chooses servers at random by their weights; two: of two the one with fewer "
            "connections."},
    {.name = "server",
     .contexts = Context::kUpstream,
     .arity = conf::at_least(1),
     .syntax = "address [weight=number] [max_fails=number] [fail_timeout=time] "
               "[max_conns=number | auto] [backup] [down] [resolve]",
     .set = set_server,
     .inherit = conf::Inherit::kNone,
     .doc = "A server of the group: address:port, a name (resolved at start, each of its addresses "
            "counts) or unix:/path. With resolve a name is looked up while we run (resolver), as "
            "often as its TTL says. max_conns counts each worker's connections, with a zone those "
            "of all."},
    {.name = "upstream",
     .contexts = Context::kHttp,
     .kind = conf::Kind::kBlock,
     .syntax = "name",
     .set = set_upstream,
     .inherit = conf::Inherit::kNone,
     .doc =
         "A group of servers that *_pass may name. Requests are passed to them in weighted round "
         "robin; a server that failed max_fails times within fail_timeout is left alone that long.",
     .opens = Context::kUpstream},
    {.name = "zone",
     .contexts = Context::kUpstream,
     .arity = conf::between(1, 2),
     .syntax = "name [size]",
     .set = set_zone,
     .inherit = conf::Inherit::kNone,
     .doc = "Keeps the group's state (failures, connections, whose turn it is) in memory that all "
            "workers share. The size is checked but not needed: it follows from the servers."},
};
static_assert(conf::well_formed(kDirectives));

// All groups are known, those that *_pass names by address as well.
void finish(conf::Compiler& compiler) {
  auto& shared = compiler.object_or_make<SharedState>();
  compiler.object_or_make<Backends>().link(compiler, shared);
  if (shared.empty()) return;
  if (const Result<void> made = shared.create(); !made) {
    log_errno(nullptr, LogLevel::kAlert, made.error().detail,
              "{} failed, upstreams are not shared between workers", made.error().context);
  }
}

}  // namespace

const conf::Module& upstream_module() {
  static constexpr conf::Module kModule = conf::module<NoSettings>("upstream", kDirectives, finish);
  return kModule;
}

}  // namespace corehttpd::upstream
