// Looking up: which site, which location.
#include "corehttpd/route/tree.h"

#include "route/builder.h"

namespace corehttpd::route {
namespace {

// Specific addresses are compared without the port, which the listener has fixed.
const AddressSites& sites_at(const ListenerSites& listener, const IpAddress& local) {
  for (const SpecificAddress& specific : listener.specific) {
    if (specific.address.family == local.family && specific.address.bytes == local.bytes) {
      return specific.sites;
    }
  }
  return listener.any;
}

// Every site of an exchange that this router serves was made here.
const SiteData& data_of(const http::Site& site) { return static_cast<const SiteData&>(site); }

}  // namespace

std::span<Listener> Tree::listeners() {
  return data_ == nullptr ? std::span<Listener>() : data_->listeners;
}

std::span<const http::Site* const> Tree::sites() const {
  return data_ == nullptr ? std::span<const http::Site* const>() : data_->sites;
}

const http::Site& Tree::default_site(const http::Endpoint& endpoint) const {
  return *data_->by_listener[endpoint.index].any.default_site;
}

const http::Site& Tree::select_site(const http::Endpoint& endpoint, std::string_view host,
                                    http::Exchange& exchange) const {
  const AddressSites& sites =
      sites_at(data_->by_listener[endpoint.index], exchange.connection().local);
  if (sites.names == nullptr) return *sites.default_site;
  const std::uint32_t found = sites.names->hosts.find(host);
  if (found != expr::HostTable::kNone) return *sites.names->sites[found];
  if (!host.empty()) {
    for (const RegexName& name : sites.names->regexes) {
      if (name.regex->match(exchange, host)) return *name.site;
    }
  }
  return *sites.default_site;
}

const http::Site& Tree::site_by_name(const http::Endpoint& endpoint, const IpAddress& local,
                                     std::string_view name) const {
  const AddressSites& sites = sites_at(data_->by_listener[endpoint.index], local);
  if (sites.names == nullptr || name.empty()) return *sites.default_site;
  const std::uint32_t found = sites.names->hosts.find(name);
  if (found != expr::HostTable::kNone) return *sites.names->sites[found];
  for (const RegexName& one : sites.names->regexes) {
    if (one.regex->test(name)) return *one.site;
  }
  return *sites.default_site;
}

http::LocationMatch Tree::find_location(http::Exchange& exchange) const {
  const SiteData& site = data_of(exchange.site());
  LocationFound found;
  if (site.level != nullptr) found = route::find_location(exchange, *site.level);
  if (found.location == nullptr) {
    exchange.set_location(&site.fallback, site.settings);
    return http::LocationMatch::kNone;
  }
  exchange.set_location(found.location, found.location->settings);
  return found.add_slash ? http::LocationMatch::kAddSlash : http::LocationMatch::kFound;
}

const http::Location* Tree::locate(const http::Site& site, std::string_view uri) const {
  const LocationLevel* level = data_of(site).level;
  return level == nullptr ? nullptr : route::locate(uri, *level);
}

bool Tree::find_named_location(http::Exchange& exchange, std::string_view name) const {
  for (const LocationNode* location : data_of(exchange.site()).named) {
    if (location->name != name) continue;
    exchange.set_location(location, location->settings);
    return true;
  }
  return false;
}

}  // namespace corehttpd::route
