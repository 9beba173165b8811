// corehttpd: what the command line asks for.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "corehttpd/base/log.h"
#include "corehttpd/conf/diagnostics.h"
#include "server/command_line.h"
#include "server/config_test.h"
#include "server/control.h"
#include "server/environment.h"
#include "server/import/import.h"
#include "server/manual.h"
#include "server/master.h"
#include "server/modules.h"
#include "server/upgrade.h"

namespace {

using namespace corehttpd;
using namespace corehttpd::server;

int print_version(bool longer) {
  std::fputs("corehttpd version: corehttpd/" CORE_VERSION "\n", stderr);
  if (!longer) return 0;
  std::fputs(compatible_version().c_str(), stderr);
  return 0;
}

// What a reload or an upgrade came to: "ok", or "failed: " and the reason.
int report_outcome(const std::string& answer) {
  if (answer == "ok\n") return 0;
  std::fprintf(stderr, "corehttpd: [error] %s", answer.c_str());
  return 1;
}

// Where the running master's pid file is; a configuration that does not load any more must not keep
// us from asking.
std::string running_pid_path(const CommandLine& line) {
  conf::Diagnostics diagnostics;
  auto configuration = load(load_options(line), diagnostics, line.error_log);
  return configuration == nullptr ? kDefaultPid : pid_path(*configuration);
}

int print_status(const CommandLine& line) {
  const std::string path = control_path(running_pid_path(line));
  auto answer = ask_master(path, line.json ? ControlRequest::kStatusJson : ControlRequest::kStatus);
  if (!answer) {
    std::fprintf(
        stderr, "corehttpd: [error] no master answers at \"%s\": %s\n", path.c_str(),
        answer.error().detail != 0 ? std::strerror(answer.error().detail) : answer.error().context);
    return 1;
  }
  std::fputs(answer->c_str(), stdout);
  return 0;
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
  if (line.signal == "reload" || line.signal == "upgrade") {
    const auto request =
        line.signal == "reload" ? ControlRequest::kReload : ControlRequest::kUpgrade;
    // The answer says how it ended; a master without a control socket gets the signal only.
    if (auto answer = ask_master(control_path(path), request)) return report_outcome(*answer);
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
  if (argc > 1 && std::strcmp(argv[1], "import-nginx") == 0) return importer::run(argc, argv);
  Invocation invocation = remember_invocation(argc, argv);
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
      return print_status(*line);
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
  Master master(*line, std::move(invocation));
  return master.run();
}
