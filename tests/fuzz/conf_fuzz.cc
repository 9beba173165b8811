// The configuration's text: lexer, tree, compiler and diagnostics over a small module set and the
// table of what comes later. No input reads files: a word "include" can only come from those
// letters.
#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/check.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/later.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::conf {
namespace {

struct Settings {
  bool flag = false;
  std::uint64_t size = 0;
  Milliseconds time = 0;
  std::uint32_t number = 0;
  std::uint32_t lines = 0;
  std::string_view text;
};

bool open_block(const Setting& s) {
  s.child->close = [](Compiler& compiler, Scope& scope) {
    return compiler.settings<Settings>(scope).number != 13;
  };
  return true;
}

// Touches every byte of every word, so that the sanitizer sees what does not belong to it.
bool read_lines(const Setting& s) {
  std::uint32_t sum = 0;
  for (const Node& line : s.node.children) {
    CORE_CHECK(line.name.text.data()[line.name.text.size()] == '\0');
    for (const Word& word : line.words) {
      for (char c : word.text) sum += static_cast<unsigned char>(c);
      CORE_CHECK(word.at.line > 0 && word.at.column > 0);
    }
  }
  static_cast<Settings*>(s.settings)->lines = sum;
  return true;
}

constexpr Context kAny = Context::kMain | kHttpServerLocation;
constexpr Directive kRows[] = {
    {.name = "b",
     .contexts = kAny,
     .kind = Kind::kBlock,
     .arity = between(0, 3),
     .set = open_block,
     .inherit = Inherit::kNone,
     .doc = "A block.",
     .opens = Context::kHttp},
    {.name = "f", .contexts = kAny, .set = set_flag<&Settings::flag>, .doc = "A flag."},
    {.name = "map",
     .contexts = kAny,
     .kind = Kind::kRawBlock,
     .arity = at_least(0),
     .set = read_lines,
     .inherit = Inherit::kNone,
     .doc = "Lines."},
    {.name = "n",
     .contexts = kAny,
     .set = set_number<&Settings::number, 1, 99>,
     .doc = "A number."},
    {.name = "s",
     .contexts = kAny,
     .set = set_size<&Settings::size>,
     .default_value = "1m",
     .doc = "A size."},
    {.name = "t", .contexts = kAny, .set = set_time<&Settings::time>, .doc = "A time."},
    {.name = "w",
     .contexts = kAny,
     .arity = at_least(1),
     .set = set_path<&Settings::text>,
     .inherit = Inherit::kList,
     .doc = "Words."},
};
static_assert(well_formed(kRows));

constexpr Module kModule = module<Settings>("fuzz", kRows);

}  // namespace
}  // namespace corehttpd::conf

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace corehttpd::conf;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find("include") != std::string_view::npos) return 0;
  // Indexing the large table takes longer than all else: most inputs do without.
  static const Module* const kAll[] = {&kModule, &later_module()};
  const std::span<const Module* const> modules(kAll, size % 4 == 0 ? 2 : 1);
  Options options;
  options.prefix = "/srv/";
  Diagnostics diagnostics;
  const auto configuration = compile_text(text, options, modules, diagnostics);
  CORE_CHECK((configuration == nullptr) == (diagnostics.errors() > 0));
  CORE_CHECK(diagnostics.format_all().empty() == diagnostics.all().empty());
  CORE_CHECK(diagnostics.format_json().ends_with("]\n"));
  if (configuration != nullptr) {
    CORE_CHECK(configuration->root.get<Settings>().number < 100);
  }
  return 0;
}
