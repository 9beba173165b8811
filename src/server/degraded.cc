#include "server/degraded.h"

#include <fmt/format.h>

#include "corehttpd/base/log.h"

namespace corehttpd::server {

void log_degraded(const conf::Configuration& configuration) {
  for (const conf::SiteFault& fault : configuration.sites().faults()) {
    log(nullptr, LogLevel::kWarn, "{} in {}:{}", conf::describe_fault(fault), fault.at.file,
        fault.at.line);
  }
}

std::string find_newly_degraded(const conf::Configuration& running,
                                const conf::Configuration& fresh) {
  const auto faults = conf::newly_degraded(running.sites(), fresh.sites());
  if (faults.empty()) return {};
  const conf::SiteFault& first = faults.front();
  std::string out = fmt::format("site \"{}\" is healthy now and would be degraded: {} in {}:{}",
                                first.site->name, first.reason, first.at.file, first.at.line);
  if (faults.size() > 1) out += fmt::format(" (and {} more such faults)", faults.size() - 1);
  return out;
}

}  // namespace corehttpd::server
