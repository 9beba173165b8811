#include "server/status_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "corehttpd/base/json.h"
#include "server/libraries.h"

namespace corehttpd::server {
namespace {

std::string local_time(std::time_t at) {
  tm parts{};
  ::localtime_r(&at, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

// "3 d 4 h", "12 min", "5 s": two units at most.
std::string duration(std::int64_t seconds) {
  const std::int64_t days = seconds / 86400, hours = seconds / 3600 % 24;
  const std::int64_t minutes = seconds / 60 % 60;
  if (days > 0) return fmt::format("{} d {} h", days, hours);
  if (hours > 0) return fmt::format("{} h {} min", hours, minutes);
  if (minutes > 0) return fmt::format("{} min", minutes);
  return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
}

std::string outcome_text(const Outcome& outcome) {
  if (outcome.at == 0) return "none";
  return local_time(outcome.at) + (outcome.taken ? ", taken" : ", refused: " + outcome.reason);
}

std::string json(std::string_view value) {
  std::string out;
  append_json_string(out, value);
  return out;
}

std::string outcome_json(const Outcome& outcome) {
  if (outcome.at == 0) return "null";
  return fmt::format(R"({{"time":{},"result":"{}","reason":{}}})", outcome.at,
                     outcome.taken ? "taken" : "refused", json(outcome.reason));
}

std::string generation_json(const StatusFacts::Generation& generation, std::time_t now) {
  std::string workers;
  for (const auto& worker : generation.workers) {
    workers +=
        fmt::format(R"({}{{"pid":{},"ready":{},"age_seconds":{}}})", workers.empty() ? "" : ",",
                    worker.pid, worker.ready, worker.age_seconds);
  }
  return fmt::format(R"({{"number":{},"state":"{}","started":{},"age_seconds":{},"workers":[{}]}})",
                     generation.number, generation.state, generation.started_at,
                     now - generation.started_at, workers);
}

std::string pools_json(const std::vector<upstream::PoolStatus>& pools) {
  std::string out;
  for (const auto& pool : pools) {
    const std::string page =
        pool.status_path.empty() ? "" : fmt::format(R"(,"status_path":{})", json(pool.status_path));
    out += fmt::format(R"({}{{"name":{},"capacity":{},"connections":{},"idle":{},"waiting":{}{}}})",
                       out.empty() ? "" : ",", json(pool.name), pool.capacity, pool.connections,
                       pool.idle, pool.waiting, page);
  }
  return out;
}

std::string counters_json(const http::Counters::Snapshot& c) {
  return fmt::format(R"({{"accepted":{},"handled":{},"requests":{},)"
                     R"("active":{},"reading":{},"writing":{},"waiting":{}}})",
                     c.accepts, c.handled, c.requests, c.active, c.reading, c.writing, c.waiting);
}

std::string certificates_json(const StatusFacts& facts) {
  std::string out;
  for (const auto& one : facts.certificates) {
    std::string sites;
    for (const std::string& site : one.sites) sites += (sites.empty() ? "" : ",") + json(site);
    out += fmt::format(R"({}{{"file":{},"sites":[{}],"expires":{},"seconds_left":{}}})",
                       out.empty() ? "" : ",", json(one.file), sites,
                       one.expires == 0 ? "null" : std::to_string(one.expires),
                       one.expires == 0 ? "null" : std::to_string(one.expires - facts.now));
  }
  return out;
}

// A host has thousands: those that end first are shown.
std::string certificates_text(const StatusFacts& facts) {
  constexpr std::size_t kShown = 10;
  if (facts.certificates.empty()) return {};
  std::string out = fmt::format("certificates: {}{}\n", facts.certificates.size(),
                                facts.certificates.size() > kShown ? ", the first to expire:" : "");
  for (std::size_t i = 0; i < std::min(kShown, facts.certificates.size()); ++i) {
    const auto& one = facts.certificates[i];
    std::string state = "cannot be used";
    if (one.expires != 0) {
      state = one.expires <= facts.now ? "expired " + local_time(one.expires)
                                       : fmt::format("expires {} (in {})", local_time(one.expires),
                                                     duration(one.expires - facts.now));
    }
    const std::string more =
        one.sites.size() > 1 ? fmt::format(" and {} more", one.sites.size() - 1) : "";
    out += fmt::format("  {}{}: {}, {}\n", one.sites.empty() ? "" : one.sites.front(), more,
                       one.file, state);
  }
  return out;
}

}  // namespace

std::string status_text(const StatusFacts& facts) {
  std::string out =
      fmt::format("corehttpd/{}, master process {}, up {}\nconfiguration {}\n", CORE_VERSION,
                  facts.master, duration(facts.now - facts.started_at), facts.configuration);
  for (const auto& generation : facts.generations) {
    out += fmt::format("generation {}: {} since {} ({}), {} worker{}:", generation.number,
                       generation.state, local_time(generation.started_at),
                       duration(facts.now - generation.started_at), generation.workers.size(),
                       generation.workers.size() == 1 ? "" : "s");
    for (const auto& worker : generation.workers)
      out += fmt::format(" {}{}", worker.pid, worker.ready ? "" : " (starting)");
    out += '\n';
  }
  if (facts.older_masters > 0)
    out += fmt::format("older masters that still drain: {}\n", facts.older_masters);
  const auto& c = facts.counters;
  out += fmt::format(
      "connections {} active ({} reading, {} writing, {} waiting), {} accepted, {} requests\n",
      c.active, c.reading, c.writing, c.waiting, c.accepts, c.requests);
  out += "last reload: " + outcome_text(facts.last_reload) + '\n';
  out += "last upgrade: " + outcome_text(facts.last_upgrade) + '\n';
  out += facts.degraded.empty() ? "sites degraded: none\n" : "sites degraded:\n";
  for (const auto& site : facts.degraded)
    out += fmt::format("  {}: {} in {}:{}\n", site.name, site.reason, site.file, site.line);
  out += certificates_text(facts);
  for (const auto& pool : facts.pools) {
    out += fmt::format("pool {}: {} of {} connections ({} idle), {} requests waiting{}{}\n",
                       pool.name, pool.connections, pool.capacity, pool.idle, pool.waiting,
                       pool.status_path.empty() ? "" : "; php-fpm's own page: ", pool.status_path);
  }
  out += "libraries:";
  for (const LoadedLibrary& library : loaded_libraries())
    out += fmt::format(" {}{}", library.name(), library.replaced ? " (replaced on disk)" : "");
  out += '\n';
  return out;
}

std::string status_json(const StatusFacts& facts) {
  std::string generations, degraded, libraries;
  for (const auto& generation : facts.generations)
    generations += (generations.empty() ? "" : ",") + generation_json(generation, facts.now);
  for (const auto& site : facts.degraded) {
    degraded += fmt::format(R"({}{{"name":{},"reason":{},"file":{},"line":{}}})",
                            degraded.empty() ? "" : ",", json(site.name), json(site.reason),
                            json(site.file), site.line);
  }
  for (const LoadedLibrary& library : loaded_libraries()) {
    libraries += fmt::format(R"({}{{"name":{},"replaced":{}}})", libraries.empty() ? "" : ",",
                             json(library.name()), library.replaced);
  }
  return fmt::format(
      R"({{"version":"{}","master":{},"started":{},"age_seconds":{},"configuration":{},)"
      R"("generation":{},"generations":[{}],"older_masters":{},"connections":{},)"
      R"("last_reload":{},"last_upgrade":{},"sites_degraded":[{}],"certificates":[{}],)"
      R"("pools":[{}],"libraries":[{}]}})"
      "\n",
      CORE_VERSION, facts.master, facts.started_at, facts.now - facts.started_at,
      json(facts.configuration), facts.generation, generations, facts.older_masters,
      counters_json(facts.counters), outcome_json(facts.last_reload),
      outcome_json(facts.last_upgrade), degraded, certificates_json(facts), pools_json(facts.pools),
      libraries);
}

std::string status_line(const StatusFacts& facts) {
  std::size_t workers = 0;
  for (const auto& generation : facts.generations) {
    if (generation.number == facts.generation) workers = generation.workers.size();
  }
  std::string out = fmt::format("generation {}, {} workers", facts.generation, workers);
  if (!facts.degraded.empty()) out += fmt::format(", {} sites degraded", facts.degraded.size());
  if (facts.last_reload.at != 0 && !facts.last_reload.taken)
    out += "; last reload refused: " + facts.last_reload.reason;
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

}  // namespace corehttpd::server
