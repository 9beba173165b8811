#include "server/import/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace corehttpd::server::importer {
namespace {

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Their first word is taken from nginx's prefix when it is relative…
constexpr std::array<std::string_view, 15> kFromPrefix = {"root",
                                                          "alias",
                                                          "access_log",
                                                          "error_log",
                                                          "pid",
                                                          "client_body_temp_path",
                                                          "fastcgi_temp_path",
                                                          "proxy_temp_path",
                                                          "scgi_temp_path",
                                                          "uwsgi_temp_path",
                                                          "fastcgi_cache_path",
                                                          "proxy_cache_path",
                                                          "scgi_cache_path",
                                                          "uwsgi_cache_path",
                                                          "google_perftools_profiles"};
// …and theirs from the directory of nginx.conf.
constexpr std::array<std::string_view, 24> kFromDirectory = {"auth_basic_user_file",
                                                             "auth_jwt_key_file",
                                                             "geoip_city",
                                                             "geoip_country",
                                                             "geoip_org",
                                                             "grpc_ssl_certificate",
                                                             "grpc_ssl_certificate_key",
                                                             "grpc_ssl_crl",
                                                             "grpc_ssl_trusted_certificate",
                                                             "proxy_ssl_certificate",
                                                             "proxy_ssl_certificate_key",
                                                             "proxy_ssl_crl",
                                                             "proxy_ssl_trusted_certificate",
                                                             "ssl_certificate",
                                                             "ssl_certificate_key",
                                                             "ssl_client_certificate",
                                                             "ssl_crl",
                                                             "ssl_dhparam",
                                                             "ssl_password_file",
                                                             "ssl_session_ticket_key",
                                                             "ssl_stapling_file",
                                                             "ssl_trusted_certificate",
                                                             "uwsgi_ssl_certificate",
                                                             "uwsgi_ssl_certificate_key"};
// Their words may look like paths of files and are none.
constexpr std::array<std::string_view, 10> kNoPaths = {
    "location",  "if",          "return",     "rewrite",     "error_page",
    "try_files", "server_name", "log_format", "load_module", "map"};

bool is_plain_relative(std::string_view word) {
  return !word.empty() && word[0] != '/' && word[0] != '$' &&
         word.find(':') == std::string_view::npos && word != "off" && word != "on" &&
         word != "stderr";
}

class PathEditor {
 public:
  PathEditor(const Roots& roots, const Tree& tree, Plan& plan, Report& report)
      : roots_(roots), tree_(tree), plan_(plan), report_(report) {}

  Mirrors run() {
    std::set<Place> done;
    const auto edit = [&](const Place& place) {
      if (done.insert(place).second && !plan_.is_out(place)) edit_statement(place);
    };
    for (const Place& place : tree_.root().statements) edit(place);
    for (const Scope& scope : tree_.scopes())
      for (const Place& place : scope.statements) edit(place);
    for (const Place& place : tree_.opaque()) edit(place);
    for (const auto& [place, include] : tree_.includes()) edit_include(include);
    mirror_outside();
    return std::move(mirrors_);
  }

 private:
  // Replaces count bytes of a word's value, which starts it, in the text.
  void replace_start(const Place& place, const Token& word, std::size_t count,
                     std::string_view with) {
    const std::size_t begin = word.begin + (word.quoted ? 1 : 0);
    plan_.edits(place.file).replace(begin, begin + count, std::string(with));
  }

  void edit_statement(const Place& place) {
    const Statement& statement = *place.statement;
    const std::string_view name = statement.name();
    if (statement.words.size() < 2 || is_one_of(kNoPaths, name)) return;
    const Token& first = statement.words[1];
    if (is_plain_relative(first.value)) {
      if (is_one_of(kFromPrefix, name))
        return replace_start(place, first, 0, roots_.prefix() + "/");
      if (is_one_of(kFromDirectory, name)) {
        const bool held = roots_.holds(first.value);
        return replace_start(place, first, 0, (held ? roots_.to() : roots_.from()) + "/");
      }
    }
    for (std::size_t i = 1; i < statement.words.size(); ++i) {
      const Token& word = statement.words[i];
      const auto relative = roots_.relative(word.value);
      if (relative && roots_.holds(*relative))
        replace_start(place, word, roots_.root_length(word.value), roots_.to());
    }
  }

  void edit_include(const Include& include) {
    const Token& word = include.place.statement->words[1];
    const auto relative = roots_.relative(word.value);
    if (relative && roots_.holds(*relative)) {
      replace_start(include.place, word, roots_.root_length(word.value), roots_.to());
    } else if (include.paths.empty() &&
               word.value.starts_with(std::string(kNginxDirectory) + "/")) {
      // A directory that is empty or missing so far: what comes to be there is not the old tree's.
      replace_start(include.place, word, kNginxDirectory.size(), roots_.to());
    } else if (!word.value.starts_with('/') && !roots_.relative(include.pattern)) {
      // "../shared/x.conf" would be looked for beside the new tree.
      plan_.edits(include.place.file).replace(word.begin, word.end, normal_path(include.pattern));
    }
  }

  // Whether the directory that an include names is in the tree, so that links in it can be replaced
  // one by one.
  bool in_directory_of_tree(const Include& include) const {
    const std::string directory = include.pattern.substr(0, include.pattern.rfind('/'));
    if (has_wildcard(directory)) return roots_.relative(directory).has_value();
    const auto real = canonical(directory);
    return real && (*real == roots_.from() || real->starts_with(roots_.from() + "/"));
  }

  void mirror_outside() {
    const std::string external = roots_.to() + "/external";
    std::set<Place> moved;
    for (bool again = true; again;) {
      again = false;
      for (const auto& [place, include] : tree_.includes()) {
        if (moved.contains(place) || in_directory_of_tree(include)) continue;
        const bool changed =
            std::any_of(include.files.begin(), include.files.end(), [&](const SourceFile* file) {
              return !is_inside(roots_, *file) && !plan_.edits(file).empty();
            });
        if (!changed) continue;
        again = true;
        moved.insert(place);
        const Token& word = place.statement->words[1];
        plan_.edits(place.file)
            .replace(word.begin, word.end, external + normal_path(include.pattern));
        for (const std::string& path : include.paths) add_mirror(external, path);
        report_.add({place.file->shown(), place.statement->line, Weight::kInfo, "include",
                     fmt::format("\"{}\" is outside the tree and had to be changed: a copy in "
                                 "\"{}\" is included",
                                 include.pattern, external),
                     "edit the copy from now on"});
      }
    }
  }

  void add_mirror(const std::string& external, const std::string& path) {
    const auto real = roots_.resolve(path);
    const auto found = real ? tree_.files().find(*real) : tree_.files().end();
    if (found != tree_.files().end()) mirrors_[external + normal_path(path)] = found->second.get();
  }

  const Roots& roots_;
  const Tree& tree_;
  Plan& plan_;
  Report& report_;
  Mirrors mirrors_;
};

}  // namespace

bool is_inside(const Roots& roots, const SourceFile& file) {
  return file.path().starts_with(roots.from() + "/");
}

Mirrors edit_paths(const Roots& roots, const Tree& tree, Plan& plan, Report& report) {
  return PathEditor(roots, tree, plan, report).run();
}

}  // namespace corehttpd::server::importer
