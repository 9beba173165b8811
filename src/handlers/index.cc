// The index directive.
#include <cerrno>

#include "corehttpd/assets/file_access.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::Method;
using http::StepOutcome;

StepOutcome path_failed(Exchange& exchange, std::string_view path, int error) {
  if (error == EACCES || error == ELOOP) {
    exchange.log(LogLevel::kError, error, "\"{}\" is forbidden", path);
    return StepOutcome::fail(403);
  }
  if (exchange.settings<http::CoreSettings>().log_not_found) {
    exchange.log(LogLevel::kError, error, "\"{}\" is not found", path);
  }
  return StepOutcome::fail(404);
}

// When an index file is missing, its directory decides: a missing directory is 404, not 403. The
// log names the file, as nginx's does.
StepOutcome check_directory(Exchange& exchange, std::string_view path, std::string_view file,
                            bool& directory_checked) {
  // Without its slash the name of a file is told apart from the name of nothing.
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::string_view directory = exchange.arena().copy(path);
  const auto asked = assets::ask(exchange, directory, assets::Need::kKind);
  if (!asked.answer) return asked.wait;
  directory_checked = true;
  const auto& entry = *asked.answer;
  if (!entry) {
    const int error = entry.error().detail;
    if (entry.error().code == Code::kNotFound || error == EACCES || error == ELOOP) {
      return path_failed(exchange, file, error);
    }
    exchange.log(LogLevel::kCrit, error, "stat() \"{}\" failed", directory);
    return StepOutcome::fail(500);
  }
  if (entry->kind == assets::FileEntry::Kind::kDirectory) return StepOutcome::proceed();
  // nginx says 500 here; what the client asked for just isn't there.
  exchange.log(LogLevel::kError, 0, "\"{}\" is not a directory", directory);
  return StepOutcome::fail(404);
}

class Index final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    if (!exchange.uri().ends_with('/')) return StepOutcome::decline();
    const Method method = exchange.request().method;
    if (method != Method::kGet && method != Method::kHead && method != Method::kPost) {
      return StepOutcome::decline();
    }
    const auto mapped = assets::map_path(exchange, exchange.uri());
    if (!mapped) return StepOutcome::fail(500);
    bool directory_checked = false;
    for (const expr::Program& file : exchange.settings<IndexSettings>().files) {
      const std::string_view name = file.evaluate(exchange);
      if (name.empty()) continue;
      // An absolute one is a URI and is not looked for.
      if (name.front() == '/') {
        exchange.redirect(name, exchange.args());
        return StepOutcome::redirect();
      }
      const auto outcome = try_file(exchange, mapped->path, name, directory_checked);
      if (outcome.kind != StepOutcome::Kind::kContinue) return outcome;
    }
    return StepOutcome::decline();
  }

 private:
  static StepOutcome try_file(Exchange& exchange, std::string_view directory, std::string_view name,
                              bool& directory_checked) {
    Arena& arena = exchange.arena();
    const std::string_view path = arena.concat(directory, name);
    const auto asked = assets::ask(exchange, path, assets::Need::kKind);
    if (!asked.answer) return asked.wait;
    const auto& entry = *asked.answer;
    if (entry) {
      exchange.redirect(arena.concat(exchange.uri(), name), exchange.args());
      return StepOutcome::redirect();
    }
    const int error = entry.error().detail;
    if (error == ENOTDIR || error == ENAMETOOLONG || error == EACCES || error == ELOOP) {
      return path_failed(exchange, path, error);
    }
    if (error != ENOENT) {
      exchange.log(LogLevel::kCrit, error, "open() \"{}\" failed", path);
      return StepOutcome::fail(500);
    }
    if (directory_checked) return StepOutcome::proceed();
    return check_directory(exchange, directory, path, directory_checked);
  }
};

constexpr Index kIndex;

bool set_index(const conf::Setting& s) {
  auto& settings = *static_cast<IndexSettings*>(s.settings);
  const std::size_t kept = s.first_here ? 0 : settings.files.size();
  const std::span<expr::Program> files =
      s.arena().make_array<expr::Program>(kept + s.words().size());
  for (std::size_t i = 0; i < kept; ++i) files[i] = settings.files[i];
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    if (word.empty()) return s.fail(i, "index \"\" in \"index\" directive is invalid");
    if (word.front() == '/' && i + 1 != s.words().size()) {
      s.warn(i, "only the last index in \"index\" directive should be absolute");
    }
    if (!expr::compile_program(s, i, word, files[kept + i])) return false;
  }
  settings.files = files;
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "index",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::at_least(1),
     .syntax = "file ...",
     .set = set_index,
     .default_value = "index.html",
     .inherit = conf::Inherit::kList,
     .doc = "Files tried in order for a URI that ends in a slash. May contain variables; the last "
            "may be a URI."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<IndexSettings>("index", kDirectives);

}  // namespace

const conf::Module& index_module() { return kModule; }

http::StepFactory index() {
  return {http::Phase::kContent,
          [](const conf::SettingsView&, Arena&) -> const http::Step* { return &kIndex; }};
}

}  // namespace corehttpd::handlers
