// The access phase: what lets a request on to its content. Its guards are asked in nginx's order,
// address rules (allow, deny), password (auth_basic), another location's word (auth_request), and
// satisfy says whether all of them must agree or one is enough. As in nginx none of them is asked
// for subrequests. limit_except gives methods that a location does not expect settings of their
// own, before anything else of the location runs.
#pragma once

#include <array>
#include <cstdint>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/ip_address.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::conf {
struct Scope;
}

namespace corehttpd::access {

// allow and deny of one block, in its order. The first rule that matches decides; rules of one
// family are kept apart, so that a client is compared with its own kind only.
class AddressRules {
 public:
  enum class Decision : std::uint8_t { kNone, kAllow, kDeny };

  struct V4 {
    std::uint32_t address, mask;  // Host order.
    bool deny;
  };
  struct V6 {
    std::array<std::uint8_t, 16> address;  // Without what the prefix does not cover.
    std::uint8_t bits;
    bool deny;
  };
  // text: an address, a network ("192.0.2.0/24"), "unix:" or "all". False when it is none of them.
  // low_bits: the network had bits beyond its prefix, which are ignored.
  bool add(Arena& arena, std::string_view text, bool deny, bool& low_bits);
  bool empty() const { return v4_.empty() && v6_.empty() && unix_.empty(); }
  // As nginx: an IPv4 client of an IPv6 socket (::ffff:192.0.2.1) goes by the IPv4 rules if there
  // are any.
  Decision decide(const IpAddress& client) const;

 private:
  Decision decide_v4(std::uint32_t client) const;

  ArenaVector<V4> v4_;
  ArenaVector<V6> v6_;
  ArenaVector<bool> unix_;
};

struct AccessSettings {
  AddressRules rules;
  // The block that rules are of: the first allow or deny of a further block starts afresh.
  const conf::Scope* rules_of = nullptr;
  enum class Satisfy : std::uint8_t { kAll, kAny } satisfy = Satisfy::kAll;
  Milliseconds auth_delay = 0;
  // limit_except: nullptr without one. methods: a bit per http::Method that it leaves alone. It is
  // of the block limited_in alone: neither nested locations nor "if" inherit it.
  const http::Location* limited = nullptr;
  conf::SettingsView limited_in;
  std::uint32_t methods = 0;
};

// allow, auth_delay, deny, limit_except, satisfy.
const conf::Module& access_module();

// Made where any guard is configured.
const http::Step* make_access_step(const conf::SettingsView& settings, Arena& arena);
inline constexpr http::StepFactory kAccessFactory{http::Phase::kAccess, make_access_step};

// Must come before all other factories of the rewrite phase: nginx chooses the settings of
// limit_except together with the location, so that its rewrite directives do not run.
const http::Step* make_limit_except_step(const conf::SettingsView& settings, Arena& arena);
inline constexpr http::StepFactory kLimitExceptFactory{http::Phase::kRewrite,
                                                       make_limit_except_step};

}  // namespace corehttpd::access
