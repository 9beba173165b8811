#include "server/config_test.h"

#include <fmt/format.h>

#include <cstdio>
#include <iterator>

#include "corehttpd/base/json.h"
#include "corehttpd/base/text.h"
#include "corehttpd/conf/diagnostics.h"
#include "server/environment.h"
#include "server/modules.h"

namespace corehttpd::server {
namespace {

struct Verdict {
  conf::Diagnostics diagnostics;
  std::unique_ptr<conf::Configuration> configuration;  // nullptr: it did not compile.
  std::size_t in_file = 0;  // Diagnostics of the file; what follows is of the machine.
  int code = kExitRefused;
};

Verdict run(const CommandLine& line, const conf::Options& options) {
  Verdict out;
  out.configuration = load(options, out.diagnostics, line.error_log);
  out.in_file = out.diagnostics.all().size();
  if (out.configuration == nullptr) return out;
  if (std::string message = check_environment(*out.configuration, out.diagnostics);
      !message.empty()) {
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
    append_json_string(out, text);
  }
  return out + "]";
}

std::string json_fault(const conf::SiteFault& fault) {
  std::string out = R"({"site":)";
  append_json_string(out, fault.site->name);
  out += R"(,"names":)" + json_list(fault.site->names);
  out += R"(,"addresses":)" + json_list(fault.site->addresses);
  out += fault.kind == conf::SiteFault::Kind::kCertificate ? R"(,"kind":"certificate","reason":)"
                                                           : R"(,"kind":"backend","reason":)";
  append_json_string(out, fault.reason);
  out += R"(,"file":)";
  append_json_string(out, fault.at.file);
  return out + fmt::format(R"(,"line":{},"column":{}}})", fault.at.line, fault.at.column);
}

void print_json(const CommandLine& line, const Verdict& verdict) {
  std::string out = fmt::format(R"({{"result":"{}","exit_code":{},"version":"{}","file":)",
                                result_name(verdict.code), verdict.code, CORE_VERSION);
  append_json_string(out, line.path);
  const bool compiled = verdict.configuration != nullptr;
  fmt::format_to(std::back_inserter(out), ",\n\"sites\":{}",
                 compiled ? verdict.configuration->sites().all().size() : 0);
  out += ",\n\"degraded\":[";
  const char* separator = "\n";
  if (compiled) {
    for (const conf::SiteFault& fault : verdict.configuration->sites().faults()) {
      out += separator + json_fault(fault);
      separator = ",\n";
    }
  }
  out += "],\n\"diagnostics\":" + verdict.diagnostics.format_json();
  out.pop_back();  // The array's own newline.
  fmt::format_to(std::back_inserter(out), ",\n\"not_shown\":{}}}\n", verdict.diagnostics.dropped());
  std::fputs(out.c_str(), stdout);
}

void print_last_line(const CommandLine& line, const Verdict& verdict) {
  if (verdict.code == kExitRight && line.quiet) return;
  std::string words = "is successful";
  if (verdict.code == kExitRefused) words = "failed";
  if (verdict.code == kExitDegraded) {
    const std::size_t sites = verdict.configuration->sites().degraded();
    words += fmt::format(", but {} of {} sites {} degraded", sites,
                         verdict.configuration->sites().all().size(), sites == 1 ? "is" : "are");
  }
  std::fprintf(stderr, "corehttpd: configuration file %s test %s\n", line.path.c_str(),
               words.c_str());
}

void print_text(const CommandLine& line, const Verdict& verdict) {
  const auto& all = verdict.diagnostics.all();
  for (std::size_t i = 0; i <= all.size(); ++i) {
    if (i == verdict.in_file && verdict.configuration != nullptr && !line.quiet) {
      std::fprintf(stderr, "corehttpd: the configuration file %s syntax is ok\n",
                   line.path.c_str());
    }
    if (i == all.size()) break;
    if (line.quiet && all[i].severity != conf::Severity::kError && !all[i].degrades) continue;
    std::fprintf(stderr, "%s\n", verdict.diagnostics.format(all[i]).c_str());
  }
  if (const std::size_t dropped = verdict.diagnostics.dropped(); dropped > 0 && !line.quiet) {
    std::fprintf(stderr, "corehttpd: [notice] %zu more messages not shown\n", dropped);
  }
  print_last_line(line, verdict);
}

}  // namespace

int test_configuration(const CommandLine& line) {
  const conf::Options options = load_options(line);
  Verdict verdict = run(line, options);
  if (line.json) {
    print_json(line, verdict);
    return verdict.code;
  }
  print_text(line, verdict);
  if (verdict.code != kExitRefused && line.action == CommandLine::Action::kDump) {
    auto text = conf::dump(options, verdict.diagnostics);
    if (text) std::fputs(text->c_str(), stdout);
  }
  return verdict.code;
}

}  // namespace corehttpd::server
