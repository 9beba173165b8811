// What a worker gives up for good after it has become the workers' user: writing outside the
// directories that the configuration names (Landlock), and system calls that a server never needs
// and an intruder would want (seccomp, by libseccomp). Reading is not restricted: sites lie
// anywhere.
#pragma once

#include <string>
#include <vector>

#include "corehttpd/base/error.h"
#include "corehttpd/conf/compiler.h"

namespace corehttpd::server {

struct SandboxState {
  bool files = false;  // Landlock is in force; false: the kernel has none.
  bool calls = false;  // The filter of system calls is.
};

// The directories beneath which a worker of this configuration may make and write files.
std::vector<std::string> writable_directories(const conf::Configuration& configuration);
// For the calling process and what it starts later. A directory that does not exist is left out.
// Without Landlock or seccomp in the kernel that part is left out, as the result says; an error
// means that the kernel has it and refused.
Result<SandboxState> enter_sandbox(const std::vector<std::string>& writable);

}  // namespace corehttpd::server
