#include "server/config_test.h"

#include <fmt/format.h>

#include <cstdio>
#include <iterator>

#include "corehttpd/conf/diagnostics.h"
#include "server/environment.h"
#include "server/modules.h"

namespace corehttpd::server {
namespace {

struct Outcome {
  conf::Diagnostics diagnostics;
  std::unique_ptr<conf::Configuration> configuration;  // nullptr: it did not compile.
  std::size_t in_file = 0;  // Diagnostics of the file; what follows is of the machine.
  int code = kExitRefused;
};

Outcome run(const CommandLine& line, const conf::Options& options) {
  Outcome out;
  out.configuration = load(options, out.diagnostics, line.error_log);
  out.in_file = out.diagnostics.all().size();
  if (out.configuration == nullptr) return out;
  if (std::string message = check_environment(*out.configuration); !message.empty()) {
    out.diagnostics.add(conf::Severity::kError, {}, std::move(message));
    return out;
  }
  out.code = out.configuration->sites().degraded() > 0 ? kExitDegraded : kExitRight;
  return out;
}

const char* result_name(int code) {
  return code == kExitRight ? "right" : code == kExitDegraded ? "degraded" : "refused";
}

std::string json_list(std::span<const std::string_view> texts) {
  std::string out = "[";
  for (std::string_view text : texts) {
    if (out.size() > 1) out += ",";
    conf::append_json(out, text);
  }
  return out + "]";
}

std::string json_fault(const conf::SiteFault& fault) {
  std::string out = R"({"site":)";
  conf::append_json(out, fault.site->name);
  out += R"(,"names":)" + json_list(fault.site->names);
  out += R"(,"addresses":)" + json_list(fault.site->addresses);
  out += fault.kind == conf::SiteFault::Kind::kCertificate ? R"(,"kind":"certificate","reason":)"
                                                           : R"(,"kind":"backend","reason":)";
  conf::append_json(out, fault.reason);
  out += R"(,"file":)";
  conf::append_json(out, fault.at.file);
  return out + fmt::format(R"(,"line":{},"column":{}}})", fault.at.line, fault.at.column);
}

void print_json(const CommandLine& line, const Outcome& outcome) {
  std::string out = fmt::format(R"({{"result":"{}","exit_code":{},"version":"{}","file":)",
                                result_name(outcome.code), outcome.code, CORE_VERSION);
  conf::append_json(out, line.path);
  const bool compiled = outcome.configuration != nullptr;
  fmt::format_to(std::back_inserter(out), ",\n\"sites\":{}",
                 compiled ? outcome.configuration->sites().all().size() : 0);
  out += ",\n\"degraded\":[";
  const char* separator = "\n";
  if (compiled) {
    for (const conf::SiteFault& fault : outcome.configuration->sites().faults()) {
      out += separator + json_fault(fault);
      separator = ",\n";
    }
  }
  out += "],\n\"diagnostics\":" + outcome.diagnostics.format_json();
  out.pop_back();  // The array's own newline.
  fmt::format_to(std::back_inserter(out), ",\n\"not_shown\":{}}}\n", outcome.diagnostics.dropped());
  std::fputs(out.c_str(), stdout);
}

void print_last_line(const CommandLine& line, const Outcome& outcome) {
  if (outcome.code == kExitRight && line.quiet) return;
  std::string words = "is successful";
  if (outcome.code == kExitRefused) words = "failed";
  if (outcome.code == kExitDegraded) {
    const std::size_t sites = outcome.configuration->sites().degraded();
    words += fmt::format(", but {} of {} sites {} degraded", sites,
                         outcome.configuration->sites().all().size(), sites == 1 ? "is" : "are");
  }
  std::fprintf(stderr, "corehttpd: configuration file %s test %s\n", line.path.c_str(),
               words.c_str());
}

void print_text(const CommandLine& line, const Outcome& outcome) {
  const auto& all = outcome.diagnostics.all();
  for (std::size_t i = 0; i <= all.size(); ++i) {
    if (i == outcome.in_file && outcome.configuration != nullptr && !line.quiet) {
      std::fprintf(stderr, "corehttpd: the configuration file %s syntax is ok\n",
                   line.path.c_str());
    }
    if (i == all.size()) break;
    if (line.quiet && all[i].severity != conf::Severity::kError && !all[i].degrades) continue;
    std::fprintf(stderr, "%s\n", outcome.diagnostics.format(all[i]).c_str());
  }
  if (const std::size_t dropped = outcome.diagnostics.dropped(); dropped > 0 && !line.quiet) {
    std::fprintf(stderr, "corehttpd: [notice] %zu more messages not shown\n", dropped);
  }
  print_last_line(line, outcome);
}

}  // namespace

int test_configuration(const CommandLine& line) {
  const conf::Options options = load_options(line);
  Outcome outcome = run(line, options);
  if (line.json) {
    print_json(line, outcome);
    return outcome.code;
  }
  print_text(line, outcome);
  if (outcome.code != kExitRefused && line.action == CommandLine::Action::kDump) {
    auto text = conf::dump(options, outcome.diagnostics);
    if (text) std::fputs(text->c_str(), stdout);
  }
  return outcome.code;
}

}  // namespace corehttpd::server
