#include "corehttpd/assets/settings.h"

#include <limits>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::assets {
namespace {

using conf::Context;
using conf::Setting;

// What a location block says in its own line.
struct LocationName {
  std::string_view name;
  bool regex = false;
  bool named = false;
};

// The location a directive stands in; nginx also takes the modifier without a blank ("~\.php$").
LocationName location_of(const conf::Scope& scope) {
  const conf::Scope* at = &scope;
  while (at != nullptr && at->context != Context::kLocation) at = at->parent;
  if (at == nullptr || at->node == nullptr || at->node->words.empty()) return {};
  std::string_view modifier = at->node->words[0].text;
  std::string_view name = modifier;
  if (at->node->words.size() > 1) {
    name = at->node->words[1].text;
  } else {
    for (std::string_view glued : {"~*", "^~", "~", "="}) {
      if (!modifier.starts_with(glued)) continue;
      name.remove_prefix(glued.size());
      modifier = glued;
      break;
    }
  }
  const bool regex = modifier == "~" || modifier == "~*";
  return {name, regex, !regex && name.starts_with('@')};
}

// Both directives fill the same fields; nginx allows only one of them in a block.
bool read_root(const Setting& s, std::string_view text, bool is_alias) {
  auto& settings = *static_cast<Settings*>(s.settings);
  if (text.find('\0') != std::string_view::npos) return s.fail(0, "invalid path");
  if (text.find("$document_root") != std::string_view::npos ||
      text.find("${document_root}") != std::string_view::npos) {
    return s.fail(0, "the $document_root variable cannot be used in the \"{}\" directive",
                  s.name());
  }
  if (text.find("$realpath_root") != std::string_view::npos ||
      text.find("${realpath_root}") != std::string_view::npos) {
    return s.fail(0, "the $realpath_root variable cannot be used in the \"{}\" directive",
                  s.name());
  }
  if (!is_alias && text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  settings.is_alias = is_alias;
  settings.alias_bytes = 0;
  settings.alias_name = {};
  settings.root_has_variables = text.find('$') != std::string_view::npos;
  if (settings.root_has_variables) {
    settings.root_prefix = s.arena().copy(s.compiler.options().prefix);
    settings.root_text = {};
    return expr::compile_program(s, 0, s.arena().copy(text), settings.root_program);
  }
  settings.root_program = {};
  settings.root_text = s.compiler.full_path(text);
  // "root /" must not map "/x" to "//x".
  if (!is_alias && settings.root_text == "/") settings.root_text = "";
  return true;
}

// A second of root and alias in one block is a mistake that nginx reports too.
bool other_is_given(const Setting& s, std::string_view other) {
  if (s.scope.node == nullptr) return false;
  for (const conf::Node& sibling : s.scope.node->children) {
    if (sibling.name.text == other) return true;
  }
  return false;
}

bool set_root(const Setting& s) {
  if (other_is_given(s, "alias")) {
    return s.fail(Setting::kWholeDirective,
                  "\"root\" directive is duplicate, \"alias\" directive was specified too");
  }
  return read_root(s, s.word(0), false);
}

bool set_alias(const Setting& s) {
  const LocationName location = location_of(s.scope);
  if (location.named) {
    return s.fail(Setting::kWholeDirective,
                  "the \"alias\" directive cannot be used inside the named location");
  }
  if (!read_root(s, s.word(0), true)) return false;
  auto& settings = *static_cast<Settings*>(s.settings);
  if (location.regex) {
    settings.alias_bytes = Settings::kAliasWhole;
    return true;
  }
  settings.alias_bytes = static_cast<std::uint32_t>(location.name.size());
  settings.alias_name = location.name;
  const bool name_slash = location.name.ends_with('/');
  const bool path_slash = s.word(0).ends_with('/');
  if (path_slash && !name_slash && location.name != "/") {
    // "/img" with "/data/": "/img../x" becomes "/data/../x", the well-known way out of the root.
    s.warn(
        0,
        "\"alias\" ends with a slash but location \"{}\" does not: \"{}../\" leaves the directory",
        location.name, location.name);
  } else if (name_slash && !path_slash) {
    s.warn(0,
           "\"alias\" has no slash at its end but location \"{}\" has: \"{}x\" is taken as \"{}x\"",
           location.name, location.name, s.word(0));
  }
  return true;
}

bool set_types(const Setting& s) {
  auto& settings = *static_cast<Settings*>(s.settings);
  std::vector<MimeType> added;
  for (const conf::Node& line : s.node.children) {
    if (line.is_block) return s.fail(Setting::kWholeDirective, "unexpected \"{{\" in \"types\"");
    for (const conf::Word& extension : line.words) {
      if (extension.text.size() > MimeTypes::kExtensionMax) {
        return s.fail(Setting::kWholeDirective, "too long extension \"{}\" in \"types\"",
                      extension.text);
      }
      added.push_back({extension.text, line.name.text});
    }
  }
  // The first block of a scope replaces what was inherited, further ones of it add.
  const MimeTypes* base = s.first_here ? nullptr : settings.types;
  settings.types = MimeTypes::build(s.arena(), base, added);
  return true;
}

bool set_open_file_cache(const Setting& s) {
  auto& policy = static_cast<Settings*>(s.settings)->open_files;
  policy.enabled = false;
  policy.entries_max = 0;
  policy.inactive_ms = 60'000;
  if (s.words().size() == 1 && s.word(0) == "off") return true;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    if (word.starts_with("max=")) {
      const auto max = conf::parse_number(word.substr(4));
      if (!max || *max == 0 || *max > std::numeric_limits<std::int32_t>::max()) {
        return s.fail(i, "invalid \"open_file_cache\" parameter \"{}\"", word);
      }
      policy.entries_max = *max;
    } else if (word.starts_with("inactive=")) {
      const auto time = conf::parse_time_ms(word.substr(9));
      if (!time) return s.fail(i, "invalid \"open_file_cache\" parameter \"{}\"", word);
      policy.inactive_ms = *time;
    } else {
      return s.fail(i, "invalid \"open_file_cache\" parameter \"{}\"", word);
    }
  }
  if (policy.entries_max == 0) {
    return s.fail(Setting::kWholeDirective, "\"open_file_cache\" must have the \"max\" parameter");
  }
  policy.enabled = true;
  return true;
}

template <auto Field>
auto& policy_field(const Setting& s) {
  return static_cast<Settings*>(s.settings)->open_files.*Field;
}
bool set_valid(const Setting& s) {
  return conf::read_time(s, 0, policy_field<&CachePolicy::valid_ms>(s));
}
bool set_min_uses(const Setting& s) {
  return conf::read_number(s, 0, 0, INT32_MAX, policy_field<&CachePolicy::uses_min>(s));
}
bool set_errors(const Setting& s) {
  return conf::read_flag(s, 0, policy_field<&CachePolicy::errors>(s));
}

// on | off | if_not_owner [from=part]; nginx takes the words in either order.
bool set_disable_symlinks(const Setting& s) {
  auto& settings = *static_cast<Settings*>(s.settings);
  settings.links = Links::kFollow;
  settings.links_from = {};
  bool given = false, from = false;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    if (word.starts_with("from=")) {
      if (word.size() == 5) {
        return s.fail(i, "no path must be specified in \"{}\" parameter", word);
      }
      if (from) return s.fail(i, "duplicate parameter \"{}\"", word);
      from = true;
      if (!expr::compile_program(s, i, word.substr(5), settings.links_from)) return false;
      continue;
    }
    if (given || (word != "on" && word != "off" && word != "if_not_owner")) {
      return s.fail(i, "invalid parameter \"{}\"", word);
    }
    given = true;
    settings.links = word == "on"    ? Links::kNever
                     : word == "off" ? Links::kFollow
                                     : Links::kSameOwner;
  }
  if (!given) {
    return s.fail(Setting::kWholeDirective,
                  "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter");
  }
  if (from && settings.links == Links::kFollow) {
    return s.fail(Setting::kWholeDirective, "\"from=\" cannot be used with \"off\" parameter");
  }
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "alias",
     .contexts = Context::kLocation,
     .syntax = "path",
     .set = set_alias,
     .doc = "The path that stands for the location's prefix; in a regex location the whole path. "
            "May contain variables."},
    {.name = "default_type",
     .contexts = conf::kHttpServerLocation,
     .syntax = "mime-type",
     .set = conf::set_text<&Settings::default_type>,
     .default_value = "text/plain",
     .doc = "The media type of files whose extension types does not name."},
    {.name = "disable_symlinks",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::between(1, 2),
     .syntax = "off | on | if_not_owner [from=part]",
     .set = set_disable_symlinks,
     .default_value = "off",
     .doc = "Refuses files whose path holds a symbolic link (403); with if_not_owner only if link "
            "and target have different owners. from: the beginning of the path that is not "
            "checked; may contain variables."},
    {.name = "open_file_cache",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::between(1, 2),
     .syntax = "off | max=N [inactive=time]",
     .set = set_open_file_cache,
     .default_value = "off",
     .doc =
         "Trusts what was found out about a file for open_file_cache_valid. Off: files are still "
         "kept in memory or open, but each request checks that they are unchanged."},
    {.name = "open_file_cache_errors",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = set_errors,
     .default_value = "off",
     .doc = "Whether failed lookups are remembered by open_file_cache too."},
    {.name = "open_file_cache_min_uses",
     .contexts = conf::kHttpServerLocation,
     .syntax = "number",
     .set = set_min_uses,
     .default_value = "1",
     .doc = "Lookups within the inactive time after which open_file_cache keeps a file open."},
    {.name = "open_file_cache_valid",
     .contexts = conf::kHttpServerLocation,
     .syntax = "time",
     .set = set_valid,
     .default_value = "60s",
     .doc = "How long open_file_cache trusts an entry before it asks the file system again."},
    {.name = "root",
     .contexts = conf::kHttpServerLocation | Context::kIfLocation,
     .syntax = "path",
     .set = set_root,
     .default_value = "html",
     .doc = "The directory that URIs are appended to. May contain variables."},
    {.name = "types",
     .contexts = conf::kHttpServerLocation,
     .kind = conf::Kind::kRawBlock,
     .arity = conf::exactly(0),
     .syntax = "{ type extension ...; }",
     .set = set_types,
     .inherit = conf::Inherit::kList,
     .doc = "Media types by file name extension. A block replaces the types of outer levels."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<Settings>("assets", kDirectives);

}  // namespace

const conf::Module& module() { return kModule; }

}  // namespace corehttpd::assets
