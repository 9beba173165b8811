// The try_files directive.
#include "corehttpd/assets/file_access.h"
#include "corehttpd/assets/path.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/target.h"
#include "corehttpd/route/tree.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::StepOutcome;

class TryFiles final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const auto& settings = exchange.settings<TryFilesSettings>();
    const auto& assets_settings = exchange.settings<assets::Settings>();
    const std::string_view root = assets::document_root(exchange);
    for (const auto& candidate : settings.candidates) {
      std::string_view name = candidate.name.evaluate(exchange);
      // "$uri" holds the location's name, which stands for the alias itself.
      const bool alias = assets_settings.is_alias && !assets_settings.alias_name.empty();
      if (alias && !candidate.name.is_literal() && name.starts_with(assets_settings.alias_name)) {
        name.remove_prefix(assets_settings.alias_bytes);
      }
      const std::string_view path = exchange.arena().concat(root, name);
      if (path.empty() || path.find('\0') != std::string_view::npos) continue;
      const auto asked = assets::ask(exchange, path, assets::Need::kKind);
      if (!asked.answer) return asked.wait;
      if (exists(exchange, path, *asked.answer, candidate.directory)) {
        use(exchange, name, candidate.directory);
        return StepOutcome::proceed();
      }
    }
    if (settings.status != 0) return StepOutcome::fail(settings.status);
    const std::string_view target = settings.fallback.evaluate(exchange);
    if (target.starts_with('@')) {
      exchange.redirect_named(target);
    } else {
      const auto [path, args] = http::split_args(target);
      exchange.redirect(path, args);
    }
    return StepOutcome::redirect();
  }

 private:
  static bool exists(Exchange& exchange, std::string_view path,
                     const Result<assets::FileEntry>& entry, bool directory) {
    if (entry) return (entry->kind == assets::FileEntry::Kind::kDirectory) == directory;
    if (entry.error().code != Code::kNotFound) {
      exchange.log(LogLevel::kCrit, entry.error().detail, "stat() \"{}\" failed", path);
    }
    return false;
  }

  // Makes the URI such that root or alias map it to what was found.
  static void use(Exchange& exchange, std::string_view name, bool directory) {
    const auto& settings = exchange.settings<assets::Settings>();
    if (name.empty()) name = "/";  // "try_files / …": the root itself.
    if (!settings.is_alias) {
      exchange.set_uri(name);
    } else if (settings.alias_bytes != assets::Settings::kAliasWhole) {
      exchange.set_uri(exchange.arena().concat(settings.alias_name, name));
    } else if (!directory) {
      exchange.set_uri(name);
      assets::append_uri_to_alias(exchange);
    }
  }
};

constexpr TryFiles kTryFiles;

bool set_try_files(const conf::Setting& s) {
  if (!s.first_here) {
    return s.fail(conf::Setting::kWholeDirective, "\"try_files\" directive is duplicate");
  }
  auto& settings = *static_cast<TryFilesSettings*>(s.settings);
  settings = TryFilesSettings{};
  settings.owner = s.scope.view();
  const std::size_t last = s.words().size() - 1;
  const auto candidates = s.arena().make_array<TryFilesSettings::Candidate>(last);
  for (std::size_t i = 0; i < last; ++i) {
    std::string_view word = s.word(i);
    if (word.ends_with('/')) {
      candidates[i].directory = true;
      word.remove_suffix(1);
    }
    if (!word.empty() && word.front() != '/' && word.front() != '$') {
      s.warn(i, "\"{}\" is appended to the root without a slash between them", word);
    }
    if (!expr::compile_program(s, i, word, candidates[i].name)) return false;
  }
  settings.candidates = candidates;
  const std::string_view fallback = s.word(last);
  route::expect_named_location(s, last);
  if (!fallback.starts_with('='))
    return expr::compile_program(s, last, fallback, settings.fallback);
  const auto status = conf::parse_number(fallback.substr(1));
  if (!status || *status < 100 || *status > 999) {
    return s.fail(last, "invalid code \"{}\"", fallback.substr(1));
  }
  settings.status = static_cast<std::uint16_t>(*status);
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "try_files",
     .contexts = conf::Context::kServer | conf::Context::kLocation,
     .arity = conf::at_least(2),
     .syntax = "file ... uri | =code | @name",
     .set = set_try_files,
     .inherit = conf::Inherit::kNone,
     .doc = "Serves the first of the files (with a slash: directories) that exists, else redirects "
            "internally to the last argument or answers with its code."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<TryFilesSettings>("try_files", kDirectives);

const http::Step* make_step(const conf::SettingsView& view, Arena&) {
  const auto& settings = view.get<TryFilesSettings>();
  if (settings.owner != view) return nullptr;
  return settings.candidates.empty() ? nullptr : &kTryFiles;
}

}  // namespace

const conf::Module& try_files_module() { return kModule; }

http::StepFactory try_files() { return {http::Phase::kPrecontent, make_step}; }

}  // namespace corehttpd::handlers
