#include "server/command_line.h"

#include <unistd.h>

#include <climits>
#include <string_view>

namespace corehttpd::server {
namespace {

std::string absolute(std::string_view path) {
  if (!path.empty() && path.front() == '/') return std::string(path);
  char directory[PATH_MAX];
  if (::getcwd(directory, sizeof(directory)) == nullptr) return std::string(path);
  return std::string(directory) + "/" + std::string(path);
}

// The value of an option letter: the rest of its word ("-p/x") or the next word.
const char* value_of(int argc, char** argv, int& i, const char* rest) {
  if (*rest != '\0') return rest;
  return i + 1 < argc ? argv[++i] : nullptr;
}

// One word of option letters ("-tq", "-c", "-p/x"). Empty: right; else the message.
std::string parse_word(int argc, char** argv, int& i, CommandLine& out, std::string& path) {
  for (const char* p = argv[i] + 1; *p != '\0'; ++p) {
    using Action = CommandLine::Action;
    switch (*p) {
      case '?':
      case 'h':
        out.action = Action::kHelp;
        continue;
      case 'v':
        out.action = Action::kVersion;
        continue;
      case 'V':
        out.action = Action::kVersionLong;
        continue;
      case 't':
        out.action = Action::kTest;
        continue;
      case 'T':
        out.action = Action::kDump;
        continue;
      case 'q':
        out.quiet = true;
        continue;
      default:
        break;
    }
    const char letter = *p;
    if (std::string_view("pcges").find(letter) == std::string_view::npos) {
      return std::string("invalid option: \"") + letter + "\"";
    }
    const char* value = value_of(argc, argv, i, p + 1);
    if (value == nullptr) return std::string("option \"-") + letter + "\" requires a parameter";
    switch (letter) {
      case 'p':
        out.prefix = absolute(value);
        if (out.prefix.back() != '/') out.prefix.push_back('/');
        break;
      case 'c':
        path = value;
        break;
      case 'e':
        out.error_log = value;
        break;
      case 'g':
        out.global_text = value;
        break;
      default:
        out.signal = value;
        out.action = Action::kSignal;
        if (out.signal != "stop" && out.signal != "quit" && out.signal != "reopen" &&
            out.signal != "reload") {
          return "invalid option: \"-s " + out.signal + "\"";
        }
    }
    return {};
  }
  return {};
}

}  // namespace

std::expected<CommandLine, std::string> parse_command_line(int argc, char** argv) {
  CommandLine out;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--describe" || word == "--reference") {
      out.action =
          word == "--describe" ? CommandLine::Action::kDescribe : CommandLine::Action::kReference;
      if (i + 1 < argc) out.argument = argv[++i];
      continue;
    }
    if (word == "--help") {
      out.action = CommandLine::Action::kHelp;
      continue;
    }
    if (word == "--version") {
      out.action = CommandLine::Action::kVersion;
      continue;
    }
    if (word.size() < 2 || word.front() != '-')
      return std::unexpected("invalid option: \"" + std::string(word) + "\"");
    if (std::string message = parse_word(argc, argv, i, out, path); !message.empty())
      return std::unexpected(message);
  }
  const bool own_prefix = !out.prefix.empty();
  if (!own_prefix) out.prefix = kDefaultPrefix;
  // A relative -c is taken from the prefix, as nginx does; without -p that means where we were
  // started.
  if (path.empty()) {
    out.path = kDefaultPath;
  } else if (path.front() == '/') {
    out.path = path;
  } else {
    out.path = own_prefix ? out.prefix + path : absolute(path);
  }
  if (!out.error_log.empty() && out.error_log != "stderr" && out.error_log.front() != '/') {
    out.error_log = own_prefix ? out.prefix + out.error_log : absolute(out.error_log);
  }
  return out;
}

const char* usage() {
  return "corehttpd/" CORE_VERSION
         "\n"
         "Usage: corehttpd [-?hvVtTq] [-s signal] [-p prefix] [-e filename] [-c filename] [-g "
         "directives]\n"
         "\n"
         "Options:\n"
         "  -?,-h         : this help\n"
         "  -v            : show version and exit\n"
         "  -V            : show version and how it was built, and exit\n"
         "  -t            : test the configuration and exit\n"
         "  -T            : test the configuration, dump it and exit\n"
         "  -q            : suppress non-error messages during the test\n"
         "  -s signal     : send a signal to the master: stop, quit, reopen, reload\n"
         "  -p prefix     : set prefix path\n"
         "  -e filename   : set error log file\n"
         "  -c filename   : set configuration file (default: /etc/corehttpd/corehttpd.conf)\n"
         "  -g directives : set global directives\n"
         "  --describe [directive] : explain one directive, or list them all\n"
         "  --reference directory  : write the reference of all directives as Markdown\n";
}

}  // namespace corehttpd::server
