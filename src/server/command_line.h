// The command line, nginx's (-t -T -q -c -p -e -g -s -v -V -h) and ours, as one table of options:
// parsing, --help, the manual page and the shell's completion all come from its rows.
#pragma once

#include <span>
#include <string>
#include <string_view>

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
    kStatus,
    kDescribe,
    kReference,
    kMan,
    kCompletion
  } action = Action::kServe;
  bool quiet = false;       // -q: only errors while testing.
  bool json = false;        // --json: -t and --status answer with a JSON document.
  std::string prefix;       // -p, ends in '/'.
  std::string path;         // -c, absolute.
  std::string error_log;    // -e; empty: the default.
  std::string global_text;  // -g.
  std::string signal;       // -s: one of signals().
  std::string argument;     // --describe's directive, --reference's and --man's directory.
};

// What completes an argument in a shell.
enum class Completes : std::uint8_t { kNothing, kFile, kDirectory, kSignal, kDirective };

// One option. It chooses an action, sets a flag, takes a value, or several of these.
struct Option {
  std::string_view letters;   // Each is the option behind one '-': "?h". May be empty.
  std::string_view name;      // Behind "--"; may be empty.
  std::string_view argument;  // What help calls its value; empty: it takes none.
  bool optional = false;      // The value may be left out, when nothing follows.
  std::string_view doc;       // One line, no full stop.
  std::string_view default_value;
  Completes completes = Completes::kNothing;
  CommandLine::Action action = CommandLine::Action::kServe;  // kServe: none chosen.
  bool CommandLine::*flag = nullptr;
  std::string CommandLine::*value = nullptr;
};
std::span<const Option> options();

// What -s takes.
struct SignalName {
  std::string_view name;
  int number;  // The signal that asks for it.
  std::string_view doc;
};
std::span<const SignalName> signals();
// nullptr: no such name.
const SignalName* find_signal(std::string_view name);

// What automation may go by.
inline constexpr int kExitRight = 0;
inline constexpr int kExitRefused = 1;
inline constexpr int kExitDegraded = 2;
struct ExitCode {
  int code;
  std::string_view doc;
};
std::span<const ExitCode> exit_codes();

// Programs of their own behind the first word; main() hands their arguments over before options
// are parsed.
struct Subcommand {
  std::string_view name;
  std::string_view arguments;
  std::string_view doc;
};
std::span<const Subcommand> subcommands();

// Paths built in, as Debian lays them out.
inline constexpr const char* kDefaultPrefix = "/usr/share/corehttpd/";
inline constexpr const char* kDefaultPath = "/etc/corehttpd/corehttpd.conf";
inline constexpr const char* kDefaultErrorLog = "/var/log/corehttpd/error.log";
inline constexpr const char* kDefaultPid = "/run/corehttpd.pid";
inline constexpr const char* kDefaultStateDirectory = "/var/lib/corehttpd";

// On a wrong option: the message to print ("invalid option: \"-x\"").
std::expected<CommandLine, std::string> parse_command_line(int argc, char** argv);
// What -h prints.
std::string usage();
// "[-?hvVtTq] [-s signal] …": how options are written, for usage() and the manual page.
std::string synopsis();
// "-?, -h, --help" or "-s signal".
std::string spelling(const Option& option);

}  // namespace corehttpd::server
