// The location directive: its forms, nginx's rules about nesting and duplicates.
#include <fmt/format.h>

#include <unordered_map>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/location_reset.h"
#include "route/builder.h"

namespace corehttpd::route {
namespace {

struct Form {
  std::string_view name;
  bool exact = false;
  bool no_regex = false;
  bool regex = false;
  bool ignore_case = false;
};

// "location = /x", or the same in one word: "location =/x".
bool read_form(const conf::Setting& s, Form& form) {
  if (s.words().size() == 2) {
    const std::string_view modifier = s.word(0);
    form.name = s.word(1);
    form.exact = modifier == "=";
    form.no_regex = modifier == "^~";
    form.ignore_case = modifier == "~*";
    form.regex = modifier == "~" || form.ignore_case;
    if (!form.exact && !form.no_regex && !form.regex) {
      return s.fail(0, "invalid location modifier \"{}\"", modifier);
    }
    return true;
  }
  form.name = s.word(0);
  std::size_t skip = 0;
  if (form.name.starts_with('=')) {
    form.exact = true;
    skip = 1;
  } else if (form.name.starts_with("^~")) {
    form.no_regex = true;
    skip = 2;
  } else if (form.name.starts_with('~')) {
    form.regex = true;
    form.ignore_case = form.name.starts_with("~*");
    skip = form.ignore_case ? 2 : 1;
  }
  form.name.remove_prefix(skip);
  return true;
}

// What nginx refuses: a location that could never be reached, or that its outer one can't hold.
bool check_nesting(const conf::Setting& s, const LocationNode& node, const LocationNode& outer) {
  if (outer.exact) {
    return s.fail(0, "location \"{}\" cannot be inside the exact location \"{}\"", node.name,
                  outer.name);
  }
  if (outer.named) {
    return s.fail(0, "location \"{}\" cannot be inside the named location \"{}\"", node.name,
                  outer.name);
  }
  if (node.named) {
    return s.fail(0, "named location \"{}\" can be on the server level only", node.name);
  }
  if (!node.regex && !node.name.starts_with(outer.name)) {
    return s.fail(0, "location \"{}\" is outside location \"{}\"", node.name, outer.name);
  }
  return true;
}

// An earlier location of this level with the same name and kind.
const LocationBuild* find_duplicate(const std::vector<LocationBuild*>& level,
                                    const LocationNode& node) {
  if (node.regex) return nullptr;
  for (const LocationBuild* other : level) {
    const LocationNode& o = *other->node;
    if (!o.regex && o.named == node.named && o.exact == node.exact && o.name == node.name) {
      return other;
    }
  }
  return nullptr;
}

std::span<const LocationNode* const> select(Arena& arena, const std::vector<LocationBuild*>& level,
                                            bool (*wanted)(const LocationNode&)) {
  std::vector<const LocationNode*> chosen;
  for (const LocationBuild* location : level) {
    if (wanted(*location->node)) chosen.push_back(location->node);
  }
  return to_arena(arena, chosen);
}

const LocationLevel* build_level(Arena& arena, const std::vector<LocationBuild*>& level) {
  if (level.empty()) return nullptr;
  LocationLevel* const made = arena.make<LocationLevel>();
  std::vector<const LocationNode*> prefixes;
  for (const LocationBuild* location : level) {
    const LocationNode& node = *location->node;
    if (!node.regex && !node.named) prefixes.push_back(&node);
  }
  made->prefixes.build(arena, std::move(prefixes));
  made->regexes = select(arena, level, [](const LocationNode& node) { return node.regex; });
  return made;
}

}  // namespace

bool open_location(const conf::Setting& s) {
  Form form;
  if (!read_form(s, form)) return false;
  LocationBuild* const outer = s.scope.context == conf::Context::kLocation
                                   ? static_cast<LocationBuild*>(s.scope.object)
                                   : nullptr;
  LocationBuild* const location = s.arena().make<LocationBuild>();
  location->node = s.arena().make<LocationNode>();
  location->scope = s.child;
  location->parent = outer;
  location->server = outer != nullptr ? outer->server : static_cast<ServerBuild*>(s.scope.object);
  location->at = s.node.name.at;
  const conf::Word& last_word = s.node.words.back();
  location->name_at = last_word.at;
  location->name_width = last_word.text.size() + (last_word.quoted ? 2 : 0);
  location->ignore_case = form.ignore_case;
  LocationNode& node = *location->node;
  node.name = form.name;
  node.exact = form.exact;
  node.no_regex = form.no_regex;
  node.regex = form.regex;
  node.named = !form.exact && !form.no_regex && !form.regex && form.name.starts_with('@');
  if (outer != nullptr && !check_nesting(s, node, *outer->node)) return false;
  const std::size_t last = s.words().size() - 1;
  if (form.regex) {
    node.pattern = expr::Regex::compile(s, last, form.name, form.ignore_case);
    if (node.pattern == nullptr) return false;
  }
  std::vector<LocationBuild*>& level =
      outer != nullptr ? outer->nested : location->server->locations;
  if (const LocationBuild* other = find_duplicate(level, node)) {
    return s.fail(last, "duplicate location \"{}\" in {}:{}", node.name, other->at.file,
                  other->at.line);
  }
  level.push_back(location);
  s.compiler.object_or_make<Builder>().locations.push_back(location);
  s.child->object = location;
  // Nobody's content handler goes down into a nested location.
  if (s.child->view().get<http::CoreSettings>().auto_redirect) {
    s.compiler.settings<http::CoreSettings>(*s.child).auto_redirect = false;
  }
  http::LocationResets::run(s.compiler, *s.child);
  return true;
}

http::Location* open_inner_location(conf::Compiler& compiler, conf::Scope& inner) {
  const conf::Scope* outer = inner.parent;
  while (outer != nullptr && outer->context != conf::Context::kLocation) outer = outer->parent;
  http::Location* const location = compiler.arena().make<http::Location>();
  if (outer != nullptr) *location = *static_cast<LocationBuild*>(outer->object)->node;
  compiler.object_or_make<Builder>().inner.push_back({location, &inner});
  return location;
}

void build_locations(conf::Compiler& compiler, Builder& builder) {
  Arena& arena = compiler.arena();
  for (LocationBuild* location : builder.locations) {
    LocationNode& node = *location->node;
    node.settings = location->scope->view();
    const http::CoreSettings& core = node.settings.get<http::CoreSettings>();
    node.internal = core.internal;
    node.auto_redirect = core.auto_redirect && node.name.ends_with('/');
    node.nested = build_level(arena, location->nested);
  }
  for (const InnerBuild& inner : builder.inner) {
    inner.location->settings = inner.scope->view();
    inner.location->internal = inner.location->settings.get<http::CoreSettings>().internal;
  }
  for (ServerBuild* server : builder.servers) {
    server->site->level = build_level(arena, server->locations);
    server->site->named =
        select(arena, server->locations, [](const LocationNode& node) { return node.named; });
  }
}

}  // namespace corehttpd::route
