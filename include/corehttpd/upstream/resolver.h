// Names that are looked up while we run: "resolver", asked over c-ares, which never blocks.
//
// A name that several requests want is asked for once. What was found is kept for as long as its
// TTL says, or valid=; that there is no such name, or that nobody answered, is not kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/list.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/io/socket.h"

namespace corehttpd::upstream {

class NameCache;

struct NameAnswer {
  static constexpr int kNotFound = 3;
  static constexpr int kTimedOut = 110;
  int code = 0;                        // An RCODE of RFC 1035 §4.1.1 or kTimedOut; 0: found.
  std::vector<io::Address> addresses;  // Without ports; empty unless found.
  Milliseconds valid_until_ms = 0;
};

// In nginx's words, for "NAME could not be resolved (3: Host not found)".
std::string_view describe_name_failure(int code);

// Whoever waits for a name. Destroying or unlinking it gives up.
class NameWaiter : public ListHook<> {
 public:
  // From the loop, never within look_up(). The answer is valid during the call.
  virtual void on_name(const NameAnswer& answer) = 0;

 protected:
  ~NameWaiter() = default;
};

// One "resolver" directive.
struct Resolver {
  std::string servers;  // As c-ares has them: "127.0.0.1:53,[::1]:53".
  std::optional<Milliseconds> valid;
  bool ipv4 = true;
  bool ipv6 = true;
  mutable NameCache* cache = nullptr;  // This worker's, made when first needed.

  // The answer if it is known, to be used before anything else is called; nullptr: waiter will be
  // told. There is no limit of time but c-ares's own, of more than half a minute.
  const NameAnswer* look_up(io::Loop& loop, std::string_view name, NameWaiter& waiter) const;
};

struct ResolverSettings {
  const Resolver* resolver = nullptr;
  Milliseconds timeout = 30'000;
};

const conf::Module& resolver_module();

}  // namespace corehttpd::upstream
