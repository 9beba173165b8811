// server_name, and the table that finds a site by its name.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "corehttpd/base/text.h"
#include "route/builder.h"

namespace corehttpd::route {
namespace {

std::string_view lower(Arena& arena, std::string_view text) {
  const std::span<char> copy = arena.make_array<char>(text.size());
  std::transform(text.begin(), text.end(), copy.begin(), text::lower);
  return {copy.data(), copy.size()};
}

bool read_regex_name(const conf::Setting& s, std::size_t word, ServerName& name) {
  const std::string_view pattern = s.word(word).substr(1);
  if (pattern.empty()) {
    return s.fail(word, "empty regex in server name \"{}\"", s.word(word));
  }
  // Hosts are lower case when they get here, but the pattern may have been written otherwise.
  name.regex = expr::Regex::compile(s, word, pattern, true);
  name.text = s.word(word);
  return name.regex != nullptr;
}

bool read_name(const conf::Setting& s, std::size_t word, ServerName& name) {
  std::string_view text = s.word(word);
  if (text.starts_with('~')) return read_regex_name(s, word, name);
  char hostname[256] = {};
  if (text == "$hostname") {
    if (::gethostname(hostname, sizeof(hostname) - 1) != 0) return s.fail(word, "gethostname()");
    text = hostname;
  }
  if (const std::size_t odd = text.find_first_of("/,:;@()<>\\"); odd != std::string_view::npos) {
    s.compiler.diagnostics().add(conf::Severity::kWarning, s.node.words[word].at,
                                 fmt::format("server name \"{}\" has suspicious symbols", text),
                                 text[odd] == ',' ? "names are separated by blanks"
                                                  : "a name alone, without scheme, port and path",
                                 s.word(word).size());
  }
  name.text = lower(s.arena(), text);
  // A fully qualified name's dot is taken off hosts too.
  if (name.text.size() > 1 && name.text.ends_with('.')) name.text.remove_suffix(1);
  expr::HostTableBuilder check;
  if (check.add(name.text, 0) == expr::HostTableBuilder::Added::kInvalid) {
    return s.fail(word, "invalid server name or wildcard \"{}\"", text);
  }
  return true;
}

// Every listener asks for a table of its servers; most ask for the same (port 80 of IPv4 and IPv6).
struct NameTables {
  struct Made {
    std::vector<ServerBuild*> servers;
    const NameTable* table;
  };
  std::vector<Made> made;
};

const NameTable* make_table(conf::Compiler& compiler, std::span<ServerBuild* const> servers,
                            std::string_view at) {
  Arena& arena = compiler.arena();
  NameTable* const table = arena.make<NameTable>();
  expr::HostTableBuilder hosts;
  std::vector<const SiteData*> sites;
  std::vector<RegexName> regexes;
  for (const ServerBuild* server : servers) {
    const auto place = static_cast<std::uint32_t>(sites.size());
    sites.push_back(server->site);
    for (const ServerName& name : server->names) {
      if (name.regex != nullptr) {
        regexes.push_back({name.regex, server->site});
      } else if (hosts.add(name.text, place) == expr::HostTableBuilder::Added::kDuplicate) {
        compiler.diagnostics().add(
            conf::Severity::kWarning, name.at,
            fmt::format("conflicting server name \"{}\" on {}, ignored", name.text, at), {},
            name.width);
      }
    }
  }
  table->hosts = hosts.build(arena);
  table->sites = to_arena(arena, sites);
  table->regexes = to_arena(arena, regexes);
  return table;
}

bool has_regex(const ServerBuild& server) {
  return std::any_of(server.names.begin(), server.names.end(),
                     [](const ServerName& name) { return name.regex != nullptr; });
}

}  // namespace

bool set_server_name(const conf::Setting& s) {
  ServerBuild& server = *static_cast<ServerBuild*>(s.scope.object);
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    ServerName name;
    name.at = s.node.words[i].at;
    name.width = s.word(i).size();
    if (!read_name(s, i, name)) return false;
    server.names.push_back(name);
  }
  return true;
}

AddressSites build_names(conf::Compiler& compiler, std::span<ServerBuild* const> servers,
                         const SiteData* default_site, std::string_view at) {
  AddressSites made{default_site, nullptr};
  if (servers.size() == 1 && !has_regex(*servers.front())) return made;
  NameTables& tables = compiler.object_or_make<NameTables>();
  for (const NameTables::Made& other : tables.made) {
    if (std::equal(other.servers.begin(), other.servers.end(), servers.begin(), servers.end())) {
      made.names = other.table;
      return made;
    }
  }
  made.names = make_table(compiler, servers, at);
  tables.made.push_back({{servers.begin(), servers.end()}, made.names});
  return made;
}

}  // namespace corehttpd::route
