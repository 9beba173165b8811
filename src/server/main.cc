// corehttpd: what the command line asks for.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "corehttpd/base/log.h"
#include "corehttpd/conf/diagnostics.h"
#include "server/command_line.h"
#include "server/config_test.h"
#include "server/environment.h"
#include "server/manual.h"
#include "server/master.h"
#include "server/modules.h"

namespace {

using namespace corehttpd;
using namespace corehttpd::server;

int print_version(bool longer) {
  std::fputs("corehttpd version: corehttpd/" CORE_VERSION "\n", stderr);
  if (!longer) return 0;
  std::fputs(compatible_version().c_str(), stderr);
  return 0;
}

int not_available(const char* what) {
  std::fprintf(stderr, "corehttpd: %s is not available\n", what);
  return 1;
}

int send_signal(const CommandLine& line) {
  if (line.signal == "upgrade") return not_available("-s upgrade");
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
  const int signal = find_signal(line.signal)->number;
  if (::kill(*pid, signal) == 0) return 0;
  std::fprintf(stderr, "corehttpd: [alert] kill(%d, %d) failed (%d: %s)\n", *pid, signal, errno,
               std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  init_title(argc, argv);
  auto line = parse_command_line(argc, argv);
  if (!line) {
    std::fprintf(stderr, "corehttpd: %s\n", line.error().c_str());
    return 1;
  }
  using Action = CommandLine::Action;
  switch (line->action) {
    case Action::kHelp:
      std::fputs(usage().c_str(), stderr);
      return 0;
    case Action::kVersion:
      return print_version(false);
    case Action::kVersionLong:
      return print_version(true);
    case Action::kStatus:
      return not_available("--status");
    case Action::kDescribe:
      return describe(line->argument);
    case Action::kReference:
      return write_reference(line->argument);
    case Action::kTest:
    case Action::kDump:
      return test_configuration(*line);
    case Action::kSignal:
      return send_signal(*line);
    case Action::kMan:
      return write_manual(line->argument);
    case Action::kCompletion:
      std::fputs(bash_completion(modules()).c_str(), stdout);
      return 0;
    case Action::kServe:
      break;
  }
  Master master(*line);
  return master.run();
}
