#include "server/degraded.h"

#include "corehttpd/base/log.h"

namespace corehttpd::server {

void log_degraded(const conf::Configuration& configuration) {
  for (const conf::SiteFault& fault : configuration.sites().faults()) {
    log(nullptr, LogLevel::kWarn, "{} in {}:{}", conf::describe_fault(fault), fault.at.file,
        fault.at.line);
  }
}

bool degrades_healthy_sites(const conf::Configuration& running, const conf::Configuration& fresh) {
  const auto faults = conf::newly_degraded(running.sites(), fresh.sites());
  for (const conf::SiteFault& fault : faults) {
    log(nullptr, LogLevel::kEmerg, "site \"{}\" is healthy now and would be degraded: {} in {}:{}",
        fault.site->name, fault.reason, fault.at.file, fault.at.line);
  }
  return !faults.empty();
}

}  // namespace corehttpd::server
