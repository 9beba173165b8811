#include "corehttpd/conf/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/diagnostics.h"

namespace corehttpd::conf {
namespace {

const char* consequence(SiteFault::Kind kind) {
  switch (kind) {
    case SiteFault::Kind::kBackend:
      return "what needs it is answered with 503, the rest is served; a reload tries again";
    case SiteFault::Kind::kCertificate:
      return "it is not served over TLS, all else is; a reload tries again";
  }
  return "";
}

// One of the ways in which visitors reach a site.
std::string door(std::string_view address, std::string_view name) {
  return fmt::format("{} {}", address, name);
}

template <class F>
void for_each_door(const Site& site, F&& f) {
  for (std::string_view address : site.addresses) {
    for (std::string_view name : site.names) f(door(address, name));
  }
}

}  // namespace

void Sites::degrade(const Scope& scope, SiteFault::Kind kind, const Position& at,
                    std::string_view reason, std::size_t width) {
  SiteFault fault;
  fault.kind = kind;
  fault.reason = reason;
  fault.at = at;
  fault.width = static_cast<std::uint32_t>(width);
  pending_.push_back({&scope, fault});
}

void Sites::settle(Diagnostics& diagnostics) {
  if (pending_.empty()) return;
  std::unordered_map<const Scope*, const Site*> by_scope;
  for (const Site& site : all_) by_scope.emplace(site.scope, &site);
  for (Pending& pending : pending_) {
    const Scope* scope = pending.scope;
    while (scope != nullptr && !by_scope.contains(scope)) scope = scope->parent;
    if (scope == nullptr) continue;
    SiteFault& fault = pending.fault;
    fault.site = by_scope[scope];
    const bool known = std::any_of(faults_.begin(), faults_.end(), [&](const SiteFault& other) {
      return other.site == fault.site && other.reason == fault.reason;
    });
    if (known) continue;
    faults_.push_back(fault);
    diagnostics.add(Severity::kWarning, fault.at, describe_fault(fault), consequence(fault.kind),
                    fault.width, true);
  }
  pending_ = {};
}

void Sites::mend(const Scope& scope, SiteFault::Kind kind) {
  std::erase_if(faults_, [&](const SiteFault& fault) {
    return fault.site->scope == &scope && fault.kind == kind;
  });
}

std::size_t Sites::degraded() const {
  std::unordered_set<const Site*> sites;
  for (const SiteFault& fault : faults_) sites.insert(fault.site);
  return sites.size();
}

std::vector<SiteFault> newly_degraded(const Sites& running, const Sites& fresh) {
  std::vector<SiteFault> found;
  if (fresh.faults().empty()) return found;
  std::unordered_set<const Site*> ill;
  for (const SiteFault& fault : running.faults()) ill.insert(fault.site);
  std::unordered_set<std::string> healthy;
  for (const Site& site : running.all()) {
    if (ill.contains(&site)) continue;
    for_each_door(site, [&](std::string one) { healthy.insert(std::move(one)); });
  }
  for (const SiteFault& fault : fresh.faults()) {
    bool was_healthy = false;
    for_each_door(*fault.site,
                  [&](const std::string& one) { was_healthy |= healthy.contains(one); });
    if (was_healthy) found.push_back(fault);
  }
  return found;
}

std::string describe_fault(const SiteFault& fault) {
  return fmt::format("site \"{}\" is degraded: {}", fault.site->name, fault.reason);
}

}  // namespace corehttpd::conf
