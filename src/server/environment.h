// What lies between the command line and a configuration: paths, checks of the machine, and the
// texts that -V and --describe print.
#pragma once

#include <string>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/diagnostics.h"
#include "server/command_line.h"

namespace corehttpd::server {

conf::Options load_options(const CommandLine& line);
// "open() "/x" failed (2: No such file or directory)".
std::string describe_failure(const std::string& what, const Error& error);
// Is there anything to serve, and an address to serve it on? Empty: yes.
std::string check_listeners(const conf::Configuration& configuration);
// -t: what starting would find wrong with the machine (user, log files, addresses). Empty: nothing.
// What it would only warn of goes to diagnostics.
std::string check_environment(const conf::Configuration& configuration,
                              conf::Diagnostics& diagnostics);
// The first error, in one line: "unknown directive "x" in /etc/corehttpd/corehttpd.conf:3".
std::string first_error(const conf::Diagnostics& diagnostics);
// A reload's diagnostics, into the log.
void log_diagnostics(const conf::Diagnostics& diagnostics);
// What -V prints behind our own version: the lines of "nginx -V" that tools read to learn what they
// may use (certbot's plugin for nginx looks for the version, TLS with SNI and OpenSSL's version).
std::string compatible_version();
int describe(const std::string& directive);
int write_reference(const std::string& directory);

}  // namespace corehttpd::server
