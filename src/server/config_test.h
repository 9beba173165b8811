// -t and -T: everything that starting would find, without starting.
#pragma once

#include "server/command_line.h"

namespace corehttpd::server {

// Says what it found on stderr, or with --json as one document on stdout (docs/formats.md), and
// returns the exit code: kExitRight, kExitRefused, kExitDegraded.
int test_configuration(const CommandLine& line);

}  // namespace corehttpd::server
