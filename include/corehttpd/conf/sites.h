// Which sites a configuration has, and what is wrong with single ones. A fault of one site (a name
// that does not resolve, a certificate that cannot be read) refuses nothing by itself: at start the
// site is degraded and the others are served; a reload is refused only if that site is healthy now.
//
// Route adds the sites when their blocks are compiled; any module reports faults, before or after.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

class Diagnostics;

// A server block as operators and visitors know it. Text lives as long as the configuration.
struct Site {
  std::string_view name;  // How messages call it: its first name, else its first address.
  std::span<const std::string_view> addresses;  // "0.0.0.0:80", "[::]:443", "unix:/x".
  std::span<const std::string_view> names;      // As server_name has them; one empty one without.
  const Scope* scope = nullptr;                 // The server block's.
  Position tls_at;  // Of its first "listen … ssl"; line 0: there is none.
  std::uint32_t tls_width = 1;
};

struct SiteFault {
  enum class Kind : std::uint8_t {
    kBackend,      // A server that requests are passed to is not to be found: what needs it is
                   // answered with 503, the rest of the site is served.
    kCertificate,  // TLS of the site is out; what it serves in clear is healthy.
  };
  const Site* site = nullptr;
  Kind kind = Kind::kBackend;
  std::string_view reason;  // "host not found in upstream "php:9000""
  Position at;
  std::uint32_t width = 1;  // Columns underlined.
};

class Sites {
 public:
  // The site is kept; its scope is how degrade() finds it.
  void add(const Site& site) { all_.push_back(site); }
  // In the order of the file.
  const std::deque<Site>& all() const { return all_; }
  // scope: any within the server block. reason is copied by the caller into the configuration's
  // arena. The same reason of the same site counts once.
  void degrade(const Scope& scope, SiteFault::Kind kind, const Position& at,
               std::string_view reason, std::size_t width = 1);
  // Finds the sites of the faults and records each as a warning. compile() calls it at its end.
  void settle(Diagnostics& diagnostics);
  // Of each site at most one per reason, in the order in which they were reported.
  std::span<const SiteFault> faults() const { return faults_; }
  // The faults of that kind of the site with that scope are no more.
  void mend(const Scope& scope, SiteFault::Kind kind);
  // Sites with at least one fault.
  std::size_t degraded() const;

 private:
  struct Pending {
    const Scope* scope;
    SiteFault fault;
  };
  std::deque<Site> all_;
  std::vector<Pending> pending_;
  std::vector<SiteFault> faults_;
};

// The faults of fresh whose site is healthy in running: what refuses a reload. A site is the same
// when it answers to one of its names on one of its addresses in both, so that a site which gains
// an alias while it breaks is still the same. Sites that running does not have refuse nothing.
std::vector<SiteFault> newly_degraded(const Sites& running, const Sites& fresh);

// "site "a" is degraded: REASON".
std::string describe_fault(const SiteFault& fault);

}  // namespace corehttpd::conf
