// A small module set with a row of each kind, and what its setters saw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::conf::probe {

struct Settings {
  std::string_view root = "none";
  bool gzip = false;
  std::uint64_t limit = 0;
  Milliseconds timeout = 0;
  std::uint32_t workers = 0;
  int color = 0;
  std::uint32_t header_count = 0;
  std::string_view headers[8];
  std::uint32_t env_count = 0;
  std::string_view env[8];
};

struct Types {
  std::uint32_t count = 0;
  std::string_view first;
};

// What happened, in order: "say a|b", "open server", "close server", "listen 80 @2".
inline std::vector<std::string> events;

inline bool say(const Setting& s) {
  std::string line(s.name());
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    line.append(i == 0 ? " " : "|").append(s.word(i));
    if (s.words()[i].text.data()[s.words()[i].text.size()] != '\0') line.append("!unterminated");
  }
  events.push_back(line);
  return true;
}

inline bool set_listen(const Setting& s) {
  if (s.word(0) == "bad") return s.fail(0, "invalid port in \"{}\"", s.word(0));
  if (s.word(0) == "silent") return false;
  if (s.word(0) == "trap") s.warn(0, "careful with \"{}\"", s.word(0));
  events.push_back(fmt::format("listen {} @{}", s.word(0), s.order));
  return true;
}

inline bool open_block(const Setting& s) {
  std::string line = fmt::format("open {} @{}", s.name(), s.order);
  for (const Word& word : s.words()) line.append(" ").append(word.text);
  events.push_back(line);
  if (!s.words().empty() && s.word(0) == "refuse") return false;
  s.child->object = s.arena().make<int>(1);
  s.child->close = [](Compiler& compiler, Scope& scope) {
    const Settings& settings = compiler.settings<Settings>(scope);
    events.push_back(fmt::format("close {} root={}", scope.opened_by, settings.root));
    return settings.root != "unclosable";
  };
  return true;
}

inline bool add_header(const Setting& s) {
  auto& settings = *static_cast<Settings*>(s.settings);
  if (s.first_here) settings.header_count = 0;
  if (settings.header_count == 8) return s.fail(0, "too many headers");
  settings.headers[settings.header_count++] = s.word(0);
  return true;
}

inline bool add_env(const Setting& s) {
  auto& settings = *static_cast<Settings*>(s.settings);
  if (settings.env_count == 8) return s.fail(0, "too many");
  settings.env[settings.env_count++] = s.word(0);
  return true;
}

inline bool set_types(const Setting& s) {
  auto& types = *static_cast<Types*>(s.settings);
  types = {};
  for (const Node& line : s.node.children) {
    if (types.count++ == 0) types.first = line.name.text;
    types.count += static_cast<std::uint32_t>(line.words.size()) << 8;
  }
  return true;
}

inline constexpr Choice<int> kColors[] = {{"red", 1}, {"green", 2}};
inline constexpr Context kEverywhere = Context::kMain | kHttpServerLocation;

inline constexpr Directive kRows[] = {
    {.name = "add_header",
     .contexts = kHttpServerLocation,
     .syntax = "name",
     .set = add_header,
     .default_value = "default",
     .inherit = Inherit::kList,
     .doc = "Adds a field."},
    {.name = "color",
     .contexts = kEverywhere,
     .syntax = "red | green",
     .set = set_choice<&Settings::color, kColors>,
     .doc = "Picks a color."},
    {.name = "env",
     .contexts = kEverywhere,
     .syntax = "name",
     .set = add_env,
     .inherit = Inherit::kAppend,
     .doc = "Adds a name."},
    {.name = "epoll",
     .contexts = Context::kMain,
     .arity = at_least(0),
     .set = set_nothing,
     .inherit = Inherit::kNone,
     .stage = Stage::kNoMeaning,
     .doc = "The loop needs no choice."},
    {.name = "guard",
     .contexts = kHttpServerLocation,
     .syntax = "who",
     .set = set_nothing,
     .stage = Stage::kRefused,
     .doc = "Without it all would be let in."},
    {.name = "gzip",
     .contexts = kEverywhere,
     .syntax = "on | off",
     .set = set_flag<&Settings::gzip>,
     .default_value = "on",
     .doc = "Compresses."},
    {.name = "http",
     .contexts = Context::kMain,
     .kind = Kind::kBlock,
     .arity = exactly(0),
     .set = open_block,
     .doc = "Holds servers.",
     .opens = Context::kHttp},
    {.name = "if",
     .contexts = Context::kServer,
     .kind = Kind::kBlock,
     .arity = at_least(1),
     .syntax = "(condition)",
     .set = open_block,
     .inherit = Inherit::kNone,
     .doc = "Depends on a condition.",
     .opens = Context::kIfServer},
    {.name = "if",
     .contexts = Context::kLocation,
     .kind = Kind::kBlock,
     .arity = at_least(1),
     .syntax = "(condition)",
     .set = open_block,
     .inherit = Inherit::kNone,
     .doc = "Depends on a condition.",
     .opens = Context::kIfLocation},
    {.name = "later_block",
     .contexts = Context::kHttp,
     .kind = Kind::kBlock,
     .arity = at_least(0),
     .set = set_nothing,
     .stage = Stage::kLater,
     .doc = "Waits for blocks."},
    {.name = "limit",
     .contexts = kEverywhere,
     .syntax = "size",
     .set = set_size<&Settings::limit>,
     .default_value = "1m",
     .doc = "A size."},
    {.name = "listen",
     .contexts = Context::kServer,
     .arity = at_least(1),
     .syntax = "port [options]",
     .set = set_listen,
     .inherit = Inherit::kNone,
     .doc = "A port."},
    {.name = "location",
     .contexts = Context::kServer | Context::kLocation,
     .kind = Kind::kBlock,
     .arity = between(1, 2),
     .syntax = "[ = | ~ ] uri",
     .set = open_block,
     .inherit = Inherit::kNone,
     .doc = "A place.",
     .opens = Context::kLocation},
    {.name = "path",
     .contexts = Context::kMain,
     .syntax = "file",
     .set = set_path<&Settings::root>,
     .doc = "A path."},
    {.name = "root",
     .contexts = kEverywhere | Context::kIfLocation,
     .syntax = "path",
     .set = set_text<&Settings::root>,
     .default_value = "html",
     .doc = "A directory."},
    {.name = "say",
     .contexts = kEverywhere | Context::kIfServer | Context::kIfLocation,
     .arity = at_least(0),
     .syntax = "word ...",
     .set = say,
     .inherit = Inherit::kNone,
     .doc = "Is recorded."},
    {.name = "server",
     .contexts = Context::kHttp,
     .kind = Kind::kBlock,
     .arity = exactly(0),
     .set = open_block,
     .inherit = Inherit::kNone,
     .doc = "A site.",
     .opens = Context::kServer},
    {.name = "timeout",
     .contexts = kEverywhere,
     .syntax = "time",
     .set = set_time<&Settings::timeout>,
     .default_value = "'1m 30s'",
     .doc = "A time."},
    {.name = "workers",
     .contexts = Context::kMain,
     .syntax = "number",
     .set = set_number<&Settings::workers, 1, 64>,
     .doc = "A number."},
};
static_assert(well_formed(kRows));

inline constexpr Directive kOtherRows[] = {
    {.name = "server",
     .contexts = Context::kUpstream,
     .arity = at_least(1),
     .syntax = "address",
     .set = say,
     .inherit = Inherit::kNone,
     .doc = "An origin."},
    {.name = "types",
     .contexts = kHttpServerLocation,
     .kind = Kind::kRawBlock,
     .arity = exactly(0),
     .set = set_types,
     .default_value = "text/html html; image/png png;",
     .doc = "Types of files."},
    {.name = "upstream",
     .contexts = Context::kHttp,
     .kind = Kind::kBlock,
     .syntax = "name",
     .set = open_block,
     .inherit = Inherit::kNone,
     .doc = "Origins.",
     .opens = Context::kUpstream},
};
static_assert(well_formed(kOtherRows));

inline constexpr Module kModule =
    module<Settings>("probe", kRows, [](Compiler&) { events.push_back("finish"); });
inline constexpr Module kOther = module<Types>("other", kOtherRows);
inline constexpr const Module* kModules[] = {&kModule, &kOther};

struct Outcome {
  std::unique_ptr<Configuration> configuration;
  Diagnostics diagnostics;
  const Settings& root() const { return configuration->root.get<Settings>(); }
};

inline Outcome compile(std::string_view text,
                       Options options = {.prefix = "/srv/", .path = "t.conf"}) {
  events.clear();
  Outcome out;
  out.configuration = compile_text(text, options, kModules, out.diagnostics);
  return out;
}

// All diagnostics of text as format_all() gives them.
inline std::string complaints(std::string_view text) {
  return compile(text).diagnostics.format_all();
}

}  // namespace corehttpd::conf::probe
