// The command line, nginx's: -t -T -q -c -p -e -g -s -v -V -h, and --describe [directive].
#pragma once

#include <string>

#include "corehttpd/base/error.h"

namespace corehttpd::server {

struct CommandLine {
  enum class Action {
    kServe,
    kTest,
    kDump,
    kVersion,
    kVersionLong,
    kHelp,
    kSignal,
    kDescribe,
    kReference
  } action = Action::kServe;
  bool quiet = false;       // -q: only errors while testing.
  std::string prefix;       // -p, ends in '/'.
  std::string path;         // -c, absolute.
  std::string error_log;    // -e; empty: the default.
  std::string global_text;  // -g.
  std::string signal;       // -s: stop, quit, reopen, reload.
  std::string argument;     // --describe's directive, --reference's directory.
};

// Paths built in, as Debian lays them out.
inline constexpr const char* kDefaultPrefix = "/usr/share/corehttpd/";
inline constexpr const char* kDefaultPath = "/etc/corehttpd/corehttpd.conf";
inline constexpr const char* kDefaultErrorLog = "/var/log/corehttpd/error.log";
inline constexpr const char* kDefaultPid = "/run/corehttpd.pid";
inline constexpr const char* kDefaultStateDirectory = "/var/lib/corehttpd";

// On a wrong option: the message to print ("invalid option: \"-x\"").
std::expected<CommandLine, std::string> parse_command_line(int argc, char** argv);
const char* usage();

}  // namespace corehttpd::server
