// The rows of the command line, and the texts that list them.
#include <fmt/format.h>

#include <csignal>
#include <iterator>

#include "server/command_line.h"

namespace corehttpd::server {
namespace {

using Action = CommandLine::Action;

constexpr Option kOptions[] = {
    {.letters = "?h", .name = "help", .doc = "this help", .action = Action::kHelp},
    {.letters = "v", .name = "version", .doc = "show version and exit", .action = Action::kVersion},
    {.letters = "V",
     .doc = "show version and how it was built, and exit",
     .action = Action::kVersionLong},
    {.letters = "t", .doc = "test the configuration and exit", .action = Action::kTest},
    {.letters = "T", .doc = "test the configuration, dump it and exit", .action = Action::kDump},
    {.letters = "q",
     .doc = "suppress non-error messages during the test",
     .flag = &CommandLine::quiet},
    {.name = "json",
     .doc = "with -t or --status: answer with one JSON document",
     .flag = &CommandLine::json},
    {.letters = "s",
     .argument = "signal",
     .doc = "send a signal to the master: stop, quit, reopen, reload, upgrade",
     .completes = Completes::kSignal,
     .action = Action::kSignal,
     .value = &CommandLine::signal},
    {.name = "status",
     .doc = "show what the running server says of itself",
     .action = Action::kStatus},
    {.letters = "p",
     .argument = "prefix",
     .doc = "set prefix path",
     .default_value = kDefaultPrefix,
     .completes = Completes::kDirectory,
     .value = &CommandLine::prefix},
    {.letters = "e",
     .argument = "filename",
     .doc = "set error log file",
     .default_value = kDefaultErrorLog,
     .completes = Completes::kFile,
     .value = &CommandLine::error_log},
    {.letters = "c",
     .argument = "filename",
     .doc = "set configuration file",
     .default_value = kDefaultPath,
     .completes = Completes::kFile,
     .value = &CommandLine::path},
    {.letters = "g",
     .argument = "directives",
     .doc = "set global directives out of configuration file",
     .value = &CommandLine::global_text},
    {.name = "describe",
     .argument = "directive",
     .optional = true,
     .doc = "explain one directive, or list them all",
     .completes = Completes::kDirective,
     .action = Action::kDescribe,
     .value = &CommandLine::argument},
    {.name = "reference",
     .argument = "directory",
     .doc = "write the reference of all directives as Markdown",
     .completes = Completes::kDirectory,
     .action = Action::kReference,
     .value = &CommandLine::argument},
    {.name = "man",
     .argument = "directory",
     .doc = "write the manual pages",
     .completes = Completes::kDirectory,
     .action = Action::kMan,
     .value = &CommandLine::argument},
    {.name = "completion", .doc = "print the completion for bash", .action = Action::kCompletion},
};

constexpr SignalName kSignals[] = {
    {"stop", SIGTERM, "end at once"},
    {"quit", SIGQUIT, "finish the requests in progress, then end"},
    {"reopen", SIGUSR1, "open the log files anew"},
    {"reload", SIGHUP,
     "read the configuration anew; the old one stays when the new one is refused"},
    {"upgrade", SIGUSR2,
     "start the binary on disk in our place; we go on when it does not come up"},
};

constexpr ExitCode kExitCodes[] = {
    {kExitRight,
     "right: the configuration is good, the signal was sent, the server ended as asked"},
    {kExitRefused,
     "refused: the configuration or the command line is wrong, or the server could not start"},
    {kExitDegraded,
     "with -t: the server would run, but with sites degraded, which are named with their reasons"},
};

constexpr Subcommand kSubcommands[] = {
    {"import-nginx", "[directory] --out directory",
     "copy nginx's configuration (default: /etc/nginx) and report what differs here"},
};

// Each has something to do; a value has a name and a place; names are unique.
consteval bool well_formed() {
  for (const Option& a : kOptions) {
    if (a.letters.empty() && a.name.empty()) return false;
    if (a.doc.empty() || a.doc.ends_with('.')) return false;
    if (a.argument.empty() != (a.value == nullptr)) return false;
    if (a.action == Action::kServe && a.flag == nullptr && a.value == nullptr) return false;
    for (const Option& b : kOptions) {
      if (&a == &b) continue;
      if (!a.name.empty() && a.name == b.name) return false;
      if (a.letters.find_first_of(b.letters) != std::string_view::npos) return false;
    }
  }
  return true;
}
static_assert(well_formed());

}  // namespace

std::span<const Option> options() { return kOptions; }
std::span<const SignalName> signals() { return kSignals; }
std::span<const ExitCode> exit_codes() { return kExitCodes; }
std::span<const Subcommand> subcommands() { return kSubcommands; }

const SignalName* find_signal(std::string_view name) {
  for (const SignalName& signal : kSignals) {
    if (signal.name == name) return &signal;
  }
  return nullptr;
}

std::string spelling(const Option& option) {
  std::string out;
  for (char letter : option.letters) fmt::format_to(std::back_inserter(out), ",-{}", letter);
  if (!option.name.empty()) fmt::format_to(std::back_inserter(out), ",--{}", option.name);
  out.erase(0, 1);
  if (option.argument.empty()) return out;
  return option.optional ? fmt::format("{} [{}]", out, option.argument)
                         : fmt::format("{} {}", out, option.argument);
}

std::string synopsis() {
  std::string plain = "[-";
  std::string rest;
  for (const Option& option : kOptions) {
    if (option.argument.empty()) {
      plain += option.letters;
    } else if (!option.letters.empty()) {
      fmt::format_to(std::back_inserter(rest), " [-{} {}]", option.letters, option.argument);
    }
  }
  return plain + "]" + rest;
}

std::string usage() {
  std::string out = fmt::format("corehttpd version: corehttpd/{}\nUsage: corehttpd {}\n",
                                CORE_VERSION, synopsis());
  const auto put = std::back_inserter(out);
  for (const Subcommand& command : kSubcommands) {
    fmt::format_to(put, "       corehttpd {} {}\n", command.name, command.arguments);
  }
  fmt::format_to(put, "\nOptions:\n");
  for (const Option& option : kOptions) {
    fmt::format_to(put, "  {:<22} : {}", spelling(option), option.doc);
    if (!option.default_value.empty()) fmt::format_to(put, " (default: {})", option.default_value);
    out += '\n';
  }
  fmt::format_to(put, "\nSubcommands:\n");
  for (const Subcommand& command : kSubcommands) {
    fmt::format_to(put, "  {:<22} : {}\n", command.name, command.doc);
  }
  return out;
}

}  // namespace corehttpd::server
