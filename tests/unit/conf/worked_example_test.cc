// The example of CONTRIBUTING.md, compiled and run as it stands there: a new directive is a field
// and a row. The guide's code blocks are compared with this file, so that they stay true.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/reference.h"
#include "corehttpd/conf/values.h"

namespace corehttpd {
namespace {

// Stands for the module's settings, of which the guide adds one field.
struct FieldsSettings {
  bool greeting = false;  // Whether responses carry "Greeting: hello".
};

constexpr conf::Directive kDirectives[] = {
    {.name = "greeting",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&FieldsSettings::greeting>,
     .default_value = "off",
     .doc = "Whether responses carry a greeting."},
};
static_assert(conf::well_formed(kDirectives));

// Blocks to stand in; each remembers its settings.
struct BlockSettings {
  int unused = 0;
};
std::vector<conf::Scope*> blocks;

bool open_block(const conf::Setting& s) {
  blocks.push_back(s.child);
  return true;
}

constexpr conf::Directive kBlocks[] = {
    {.name = "http",
     .contexts = conf::Context::kMain,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(0),
     .set = open_block,
     .inherit = conf::Inherit::kNone,
     .doc = "A block.",
     .opens = conf::Context::kHttp},
    {.name = "server",
     .contexts = conf::Context::kHttp,
     .kind = conf::Kind::kBlock,
     .arity = conf::exactly(0),
     .set = open_block,
     .inherit = conf::Inherit::kNone,
     .doc = "A block.",
     .opens = conf::Context::kServer},
};

const conf::Module kGreeting = conf::module<FieldsSettings>("greeting", kDirectives);
const conf::Module kBlockModule = conf::module<BlockSettings>("blocks", kBlocks);
const conf::Module* const kModules[] = {&kGreeting, &kBlockModule};

TEST(WorkedExample, FieldAndRowAreAllThatItTakes) {
  blocks.clear();
  conf::Diagnostics diagnostics;
  const auto made = conf::compile_text("http { greeting on; server { } server { greeting off; } }",
                                       conf::Options{}, kModules, diagnostics);
  ASSERT_NE(made, nullptr) << diagnostics.format_all();
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_FALSE(made->root.get<FieldsSettings>().greeting);         // The default.
  EXPECT_TRUE(blocks[0]->view().get<FieldsSettings>().greeting);   // Set.
  EXPECT_TRUE(blocks[1]->view().get<FieldsSettings>().greeting);   // Inherited.
  EXPECT_FALSE(blocks[2]->view().get<FieldsSettings>().greeting);  // Overridden.
}

TEST(WorkedExample, MistakesAreExplained) {
  for (const auto& [text, message] :
       {std::pair{"http { greeting maybe; }", "invalid value \"maybe\""},
        std::pair{"greeting on;", "not allowed here"},
        std::pair{"http { greting on; }", "unknown directive \"greting\""},
        std::pair{"http { greeting on; greeting on; }", "is duplicate"}}) {
    conf::Diagnostics diagnostics;
    EXPECT_EQ(conf::compile_text(text, conf::Options{}, kModules, diagnostics), nullptr) << text;
    EXPECT_NE(diagnostics.format_all().find(message), std::string::npos)
        << diagnostics.format_all();
  }
}

TEST(WorkedExample, IsDocumented) {
  const std::string text = conf::describe(kModules, "greeting");
  EXPECT_NE(text.find("Whether responses carry a greeting."), std::string::npos);
  EXPECT_NE(conf::reference_markdown(kModules, kGreeting).find("greeting"), std::string::npos);
}

std::string read(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A code block of the guide, without its indentation.
std::string shown(const std::string& guide, const std::string& name) {
  const std::size_t mark = guide.find("<!-- worked-example: " + name + " -->");
  if (mark == std::string::npos) return {};
  const std::size_t begin = guide.find('\n', guide.find("```cpp", mark)) + 1;
  return guide.substr(begin, guide.find("```", begin) - begin);
}

std::string squeezed(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c != ' ' && c != '\n') out.push_back(c);
  }
  return out;
}

TEST(WorkedExample, StandsInTheGuide) {  // Tests run in the root of the source tree.
  const std::string guide = read("CONTRIBUTING.md");
  const std::string here = squeezed(read("tests/unit/conf/worked_example_test.cc"));
  for (const char* name : {"field", "row"}) {
    const std::string code = squeezed(shown(guide, name));
    ASSERT_FALSE(code.empty()) << name;
    EXPECT_NE(here.find(code), std::string::npos) << name << " differs from the guide: " << code;
  }
}

}  // namespace
}  // namespace corehttpd
