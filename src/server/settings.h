// Directives of the main and events contexts: what the master and the workers themselves go by.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/ip_network.h"
#include "corehttpd/conf/compiler.h"

namespace corehttpd::server {

// Of the "env" directive, the last one first. TZ is kept without being named.
struct EnvironmentVariable {
  std::string_view text;  // "NAME", kept from our own environment, or "NAME=value".
  const EnvironmentVariable* next;
};

struct ServerSettings {
  bool daemon = true;
  bool master_process = true;
  std::uint32_t worker_processes = 1;        // 0: auto.
  std::uint64_t worker_connections = 0;      // 0: what the descriptors allow.
  std::uint64_t worker_rlimit_nofile = 0;    // 0: the hard limit.
  Milliseconds worker_shutdown_timeout = 0;  // 0: none.
  int worker_priority = 0;                   // nice value, -20 to 20.
  bool sandbox = true;                       // worker_sandbox.
  bool pin_workers = false;                  // worker_cpu_affinity.
  std::string_view user;      // Empty: www-data when started by root, else ourselves.
  std::string_view group;     // Empty: the user's.
  std::string_view pid_path;  // Empty: kDefaultPid.
  std::string_view working_directory;
  // Bytes; none: no core files, since keys and visitors' data are in memory.
  std::optional<std::uint64_t> worker_rlimit_core;
  const EnvironmentVariable* environment = nullptr;
};

const conf::Module& server_module();
// The clients that debug_connection names.
std::span<const IpNetwork> debug_clients(const conf::Configuration& configuration);
// Workers that "worker_processes auto" means: the affinity mask, cut by the cgroup's CPU quota; at
// least 1.
std::uint32_t available_cpus();

}  // namespace corehttpd::server
