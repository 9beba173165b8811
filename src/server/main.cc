// corehttpd: what the command line asks for.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "corehttpd/base/log.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/conf/reference.h"
#include "server/command_line.h"
#include "server/environment.h"
#include "server/import/import.h"
#include "server/master.h"
#include "server/modules.h"

namespace {

using namespace corehttpd;
using namespace corehttpd::server;

int print_version(bool longer) {
  std::fputs("corehttpd version: corehttpd/" CORE_VERSION "\n", stderr);
  if (!longer) return 0;
  std::fprintf(stderr, "built by gcc %s\n%s\n", __VERSION__, configure_line());
  return 0;
}

int test(const CommandLine& line) {
  conf::Options options = load_options(line);
  options.test_only = true;
  conf::Diagnostics diagnostics;
  auto configuration = load(options, diagnostics, line.error_log);
  for (const conf::Diagnostic& d : diagnostics.all()) {
    if (line.quiet && d.severity != conf::Severity::kError) continue;
    std::fprintf(stderr, "%s\n", diagnostics.format(d).c_str());
  }
  std::string message;
  if (configuration != nullptr) {
    if (!line.quiet)
      std::fprintf(stderr, "corehttpd: the configuration file %s syntax is ok\n",
                   line.path.c_str());
    message = check_environment(*configuration);
    if (!message.empty()) std::fprintf(stderr, "corehttpd: [emerg] %s\n", message.c_str());
  }
  const bool right = configuration != nullptr && message.empty();
  if (!right || !line.quiet) {
    std::fprintf(stderr, "corehttpd: configuration file %s test %s\n", line.path.c_str(),
                 right ? "is successful" : "failed");
  }
  if (right && line.action == CommandLine::Action::kDump) {
    auto text = conf::dump(options, diagnostics);
    if (text) std::fputs(text->c_str(), stdout);
  }
  return right ? 0 : 1;
}

int send_signal(const CommandLine& line) {
  conf::Diagnostics diagnostics;
  auto configuration = load(load_options(line), diagnostics, line.error_log);
  if (configuration == nullptr) {
    std::fprintf(stderr, "%s\n", diagnostics.format_all().c_str());
    return 1;
  }
  const std::string path = pid_path(*configuration);
  auto pid = read_pid_file(path);
  if (!pid) {
    std::fprintf(stderr, "corehttpd: [error] %s \"%s\" failed (%d: %s)\n", pid.error().context,
                 path.c_str(), pid.error().detail, std::strerror(pid.error().detail));
    return 1;
  }
  const int signal = line.signal == "stop"     ? SIGTERM
                     : line.signal == "quit"   ? SIGQUIT
                     : line.signal == "reopen" ? SIGUSR1
                                               : SIGHUP;
  if (::kill(*pid, signal) == 0) return 0;
  std::fprintf(stderr, "corehttpd: [alert] kill(%d, %d) failed (%d: %s)\n", *pid, signal, errno,
               std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  if (argc > 1 && std::strcmp(argv[1], "import-nginx") == 0) return importer::run(argc, argv);
  init_title(argc, argv);
  auto line = parse_command_line(argc, argv);
  if (!line) {
    std::fprintf(stderr, "corehttpd: %s\n", line.error().c_str());
    return 1;
  }
  using Action = CommandLine::Action;
  switch (line->action) {
    case Action::kHelp:
      std::fputs(usage(), stderr);
      return 0;
    case Action::kVersion:
      return print_version(false);
    case Action::kVersionLong:
      return print_version(true);
    case Action::kDescribe:
      return describe(line->argument);
    case Action::kReference:
      return write_reference(line->argument);
    case Action::kTest:
    case Action::kDump:
      return test(*line);
    case Action::kSignal:
      return send_signal(*line);
    case Action::kServe:
      break;
  }
  Master master(*line);
  return master.run();
}
