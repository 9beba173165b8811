// What a process does to itself: title, limits, identity, background, pid file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "corehttpd/base/error.h"
#include "server/settings.h"

namespace corehttpd::server {

// Remembers where argv and environ lie, so that set_title() can write over them. Before any environ
// change.
void init_title(int argc, char** argv);
// "corehttpd: worker process", as ps shows it.
void set_title(std::string_view title);

// The user and groups that workers run as. resolved is false when we stay who we are (not started
// by root).
struct Identity {
  bool change = false;
  uid_t user = 0;
  gid_t group = 0;
  std::string name;
};
// The user directive, or www-data; kNotFound names what does not exist in context and is reported
// by the caller.
Result<Identity> resolve_identity(const ServerSettings& settings);
// Drops to identity for good, with the user's supplementary groups.
Result<> become(const Identity& identity);

// Raises the soft limit of descriptors: to wanted if it is not 0 (root may pass the hard limit),
// else to the hard limit. Returns what is in force.
std::uint64_t raise_descriptor_limit(std::uint64_t wanted);
// Core files of this process: none, or up to bytes. After become(), which forbids them.
void limit_core(const std::optional<std::uint64_t>& bytes);
// Leaves of the environment what settings name, and TZ.
void limit_environment(const ServerSettings& settings);
// fork, setsid, /dev/null on 0 and 1 (2 too unless keep_stderr). The parent exits with 0.
// The parent waits until the child has reported to the returned pipe how its start ended
// (report_to_elder), prints a failure and exits with 0 or 1.
Result<int> daemonize();
// Of the pid file of a master that a new binary is about to replace, nginx's.
inline constexpr const char* kOldPidEnding = ".oldbin";
Result<> write_pid_file(const std::string& path);
// The process ID in the file; kNotFound, kMalformed.
Result<pid_t> read_pid_file(const std::string& path);
// Makes sure that descriptors 0 to 2 are open, so that no socket is ever mistaken for stderr.
void open_standard_descriptors();

}  // namespace corehttpd::server
