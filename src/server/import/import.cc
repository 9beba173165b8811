#include "server/import/import.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/command_line.h"
#include "server/environment.h"
#include "server/import/defaults.h"
#include "server/import/output.h"
#include "server/import/paths.h"
#include "server/import/plan.h"
#include "server/import/report.h"
#include "server/import/tree.h"
#include "server/modules.h"

namespace corehttpd::server::importer {
namespace {

// Each round settles what the compiler could see; a block that was refused may hold more.
constexpr std::size_t kRoundsMax = 200;

struct Arguments {
  std::string from = std::string(kNginxDirectory);
  std::string to;
  std::string prefix;
  bool force = false;
  bool json = false;
  bool help = false;
  std::set<std::string> unguarded;
};

constexpr const char* kUsage =
    "Usage: corehttpd import-nginx [directory] --out directory [options]\n"
    "\n"
    "Copies the configuration of nginx (default: /etc/nginx), changes in the copy what has to be\n"
    "changed, tests it as -t does, and reports what is not as it was.\n"
    "\n"
    "  --out directory    : where the new tree is made; its main file is corehttpd.conf\n"
    "  --force            : the directory may have something in it; files are replaced\n"
    "  --nginx-prefix dir : what nginx -V calls --prefix (default: guessed from the layout)\n"
    "  --unguarded name   : take this directive out and leave open what it guarded\n"
    "  --json             : the report as JSON\n"
    "\n"
    "Exit code: 0 works as before, 2 works but the report names differences, 1 failed.\n";

std::string absolute(const std::string& path) {
  if (path.starts_with('/')) return normal_path(path);
  char directory[PATH_MAX];
  if (::getcwd(directory, sizeof(directory)) == nullptr) return path;
  return normal_path(std::string(directory) + "/" + path);
}

// Empty: understood.
std::string parse(int argc, char** argv, Arguments& out) {
  bool from_given = false;
  for (int i = 2; i < argc; ++i) {
    std::string_view word = argv[i];
    std::optional<std::string> value;
    if (const std::size_t equals = word.find('=');
        word.starts_with("--") && equals != std::string_view::npos) {
      value = word.substr(equals + 1);
      word = word.substr(0, equals);
    }
    if (word == "--force" || word == "--json" || word == "--help" || word == "-h") {
      if (value) return fmt::format("option \"{}\" takes no value", word);
      (word == "--force" ? out.force : word == "--json" ? out.json : out.help) = true;
    } else if (word == "--out" || word == "--nginx-prefix" || word == "--unguarded") {
      if (!value && i + 1 < argc) value = argv[++i];
      if (!value || value->empty()) return fmt::format("option \"{}\" requires a value", word);
      if (word == "--out") out.to = absolute(*value);
      if (word == "--nginx-prefix") out.prefix = absolute(*value);
      if (word == "--unguarded") out.unguarded.insert(*value);
    } else if (word.starts_with('-') || word.empty() || from_given) {
      return fmt::format("invalid option: \"{}\"", word);
    } else {
      out.from = absolute(std::string(word));
      from_given = true;
    }
  }
  return out.help || !out.to.empty() ? "" : "where to? --out is missing";
}

std::string check_directories(const Arguments& arguments, const Roots& roots) {
  // They are written into files where these mean something else.
  constexpr std::string_view kSpecial = " \t\r\n;{}\"'\\$#*?[";
  for (const std::string& path : {roots.to(), roots.prefix()}) {
    if (path.find_first_of(kSpecial) != std::string::npos)
      return fmt::format("\"{}\" has characters in it that a configuration cannot hold", path);
  }
  struct stat status = {};
  if (::stat(arguments.from.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return fmt::format("\"{}\" is not a directory", arguments.from);
  // By what the paths lead to: a link must not hide that the copy would be copied.
  std::string existing = roots.to();
  while (!canonical(existing) && existing.size() > 1)
    existing.resize(std::max<std::size_t>(existing.rfind('/'), 1));
  const std::string real = canonical(existing).value_or("/") +
                           roots.to().substr(existing.size() > 1 ? existing.size() : 0);
  if (real == roots.from() || real.starts_with(roots.from() + "/"))
    return fmt::format("\"{}\" is inside \"{}\"", roots.to(), roots.shown());
  return {};
}

class Import {
 public:
  explicit Import(const Arguments& arguments)
      : arguments_(arguments),
        roots_(arguments.from, arguments.to, arguments.prefix),
        tables_(modules()),
        tree_(roots_, tables_),
        output_(roots_, tree_, arguments.force) {}

  int run() {
    std::string message = check_directories(arguments_, roots_);
    if (message.empty()) message = tree_.read();
    if (message.empty()) message = output_.prepare();
    if (message.empty()) {
      tree_.read_disabled_sites();
      message = output_.copy(copied_);
    }
    if (message.empty()) message = settle();
    return finish(message);
  }

 private:
  conf::Options options() const {
    CommandLine line;
    line.prefix = kDefaultPrefix;
    line.path = roots_.target("nginx.conf");
    return load_options(line);
  }

  // Plans, writes and compiles until the compiler has nothing to refuse. Empty: done.
  std::string settle() {
    for (std::size_t round = 0; round < kRoundsMax; ++round) {
      report_ = copied_;
      Plan plan(roots_, tree_, tables_, refusals_, arguments_.unguarded, report_);
      plan.make();
      write_defaults(roots_, tree_, tables_, plan, report_);
      const Mirrors mirrors = edit_paths(roots_, tree_, plan, report_);
      if (std::string message = output_.write(plan, mirrors, report_); !message.empty())
        return message;
      conf::Diagnostics diagnostics;
      auto configuration = load(options(), diagnostics, "");
      if (configuration != nullptr) {
        add_warnings(diagnostics, plan);
        return check_environment(*configuration, diagnostics);
      }
      const std::size_t before = learnt_;
      std::string first;
      for (const conf::Diagnostic& d : diagnostics.all()) {
        if (d.severity != conf::Severity::kError) continue;
        if (first.empty()) first = diagnostics.format(d);
        learn(d, plan);
      }
      if (learnt_ == before) return first;
    }
    return "the configuration has too many errors";
  }

  std::optional<Place> place_of(const conf::Diagnostic& d, Plan& plan) {
    const SourceFile* file = d.line == 0 ? nullptr : output_.source_of(d.file);
    if (file == nullptr) return std::nullopt;
    const Edits& edits = plan.edits(file);
    const std::string text = edits.apply(file->text());
    std::size_t start = 0;
    for (std::uint32_t line = 1; line < d.line && start != std::string::npos; ++line) {
      start = text.find('\n', start);
      if (start != std::string::npos) ++start;
    }
    if (start == std::string::npos) return std::nullopt;
    const std::size_t offset = edits.original_offset(start + std::max(d.column, 1u) - 1);
    const Statement* statement = file->statement_at(offset);
    if (statement == nullptr) return std::nullopt;
    return Place{file, statement};
  }

  // A line of a block that is data (map, types) cannot be taken out alone: the block would mean
  // something else.
  std::optional<Place> whole_of(Place place) {
    while (tree_.opaque().contains(place)) {
      const Statement* outer = enclosing(place.file->statements(), place.statement, nullptr);
      if (outer == nullptr) {
        const auto found =
            std::find_if(tree_.includes().begin(), tree_.includes().end(), [&](const auto& entry) {
              const auto& files = entry.second.files;
              return std::find(files.begin(), files.end(), place.file) != files.end();
            });
        if (found == tree_.includes().end()) return std::nullopt;
        place = found->first;
        outer = enclosing(place.file->statements(), place.statement, nullptr);
        if (outer == nullptr) return std::nullopt;
      }
      place.statement = outer;
    }
    return place;
  }

  static const Statement* enclosing(const std::vector<Statement>& list, const Statement* wanted,
                                    const Statement* outer) {
    for (const Statement& statement : list) {
      if (&statement == wanted) return outer;
      if (wanted->begin < statement.begin || wanted->begin >= statement.end) continue;
      return enclosing(statement.children, wanted, &statement);
    }
    return nullptr;
  }

  void learn(const conf::Diagnostic& d, Plan& plan) {
    std::optional<Place> place = place_of(d, plan);
    if (place) place = whole_of(*place);
    if (!place || plan.is_out(*place) || place->statement->name() == "include") return;
    const auto found = refusals_.try_emplace(*place, Refusal{d.message, d.help, {}}).first;
    if (found->second.messages.insert(d.message).second) ++learnt_;
  }

  // What -t would warn of: sites that are not served (TLS), traps. Notices are in the report by the
  // tables already.
  void add_warnings(const conf::Diagnostics& diagnostics, Plan& plan) {
    for (const conf::Diagnostic& d : diagnostics.all()) {
      if (d.severity != conf::Severity::kWarning) continue;
      const auto place = place_of(d, plan);
      if (!place) {
        report_.add({"", 0, Weight::kDiffers, "", d.message, d.help});
        continue;
      }
      // Traps are the same in nginx: worth a word, but nothing differs.
      constexpr std::string_view kSameThere[] = {
          "is deprecated",           "never matches", "\"add_header\" here hides",
          "there is no location \"", "\" to anyone",  "suspicious symbols"};
      const bool wording = std::any_of(
          std::begin(kSameThere), std::end(kSameThere),
          [&](std::string_view words) { return d.message.find(words) != std::string::npos; });
      report_.add({place->file->shown(), place->statement->line,
                   wording ? Weight::kInfo : Weight::kDiffers,
                   std::string(place->statement->name()), d.message, d.help});
    }
  }

  int finish(const std::string& message) {
    report_.sort();
    const std::size_t replaced = report_.count(Weight::kReplaced);
    const std::size_t differs = report_.count(Weight::kDiffers);
    const int code = !message.empty() ? 1 : replaced + differs > 0 ? 2 : 0;
    std::fputs(arguments_.json ? report_.json(code).c_str() : report_.text().c_str(), stdout);
    if (!arguments_.json && code != 1) {
      std::printf(
          "\n%s: %zu replaced, %zu different, %zu written out.\nTested: corehttpd -t -c %s "
          "is successful.\n",
          code == 0 ? "It works as before" : "It works, but not all of it as before", replaced,
          differs, report_.count(Weight::kInfo), roots_.target("nginx.conf").c_str());
    }
    if (code == 1) std::fprintf(stderr, "corehttpd: import-nginx failed: %s\n", message.c_str());
    return code;
  }

  const Arguments& arguments_;
  Roots roots_;
  conf::Tables tables_;
  Tree tree_;
  Output output_;
  Refusals refusals_;
  std::size_t learnt_ = 0;  // Messages in them.
  Report copied_;           // What the copying had to say.
  Report report_;
};

}  // namespace

int run(int argc, char** argv) {
  Arguments arguments;
  if (const std::string message = parse(argc, argv, arguments); !message.empty()) {
    std::fprintf(stderr, "corehttpd: import-nginx: %s\n%s", message.c_str(), kUsage);
    return 1;
  }
  if (arguments.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  return Import(arguments).run();
}

}  // namespace corehttpd::server::importer
