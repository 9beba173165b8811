// Tables at work: contexts, arity, inheritance, order, stages, and what is said about mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/conf/probe.h"

namespace corehttpd::conf {
namespace {

using probe::compile;
using probe::complaints;
using probe::events;
using probe::Settings;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Compiler, DefaultsComeFromTheTableThroughTheSetter) {
  auto out = compile("");
  ASSERT_NE(out.configuration, nullptr) << out.diagnostics.format_all();
  EXPECT_EQ(out.root().root, "html");
  EXPECT_TRUE(out.root().gzip);
  EXPECT_EQ(out.root().limit, 1024u * 1024u);
  EXPECT_EQ(out.root().timeout, 90'000);
  EXPECT_EQ(out.root().workers, 0u);  // No default text: the struct's own value.
  ASSERT_EQ(out.root().header_count, 1u);
  EXPECT_EQ(out.root().headers[0], "default");
  const auto& types = out.configuration->root.get<probe::Types>();
  EXPECT_EQ(types.count & 0xff, 2u);
  EXPECT_EQ(types.first, "text/html");
}

TEST(Compiler, SimpleDirectivesComeBeforeBlocks) {
  auto out =
      compile("http { server { location /a { } listen 80; root s; } root h; say x; }\nroot m;");
  ASSERT_NE(out.configuration, nullptr) << out.diagnostics.format_all();
  EXPECT_THAT(events, ElementsAre("open http @0", "say x", "open server @0", "listen 80 @1",
                                  "open location @0 /a", "close location root=s",
                                  "close server root=s", "close http root=h", "finish"));
  EXPECT_EQ(out.root().root, "m");
}

TEST(Compiler, SiblingsDoNotSeeEachOther) {
  auto out =
      compile("root m; http { server { root a; } server { } server { root c; location / { } } }");
  ASSERT_NE(out.configuration, nullptr);
  EXPECT_THAT(events, ElementsAre("open http @1", "open server @0", "close server root=a",
                                  "open server @1", "close server root=m", "open server @2",
                                  "open location @1 /", "close location root=c",
                                  "close server root=c", "close http root=m", "finish"));
}

// The headers that hold in each location, by a finish hook over recorded scopes.
std::vector<std::string> lists(std::string_view text) {
  static std::vector<std::pair<std::string, SettingsView>> views;
  views.clear();
  static constexpr auto open = [](const Setting& s) {
    probe::open_block(s);
    views.emplace_back(s.words().empty() ? std::string(s.name()) : std::string(s.word(0)),
                       s.child->view());
    return true;
  };
  static std::vector<Directive> rows(std::begin(probe::kRows), std::end(probe::kRows));
  for (Directive& row : rows) {
    if (row.kind == Kind::kBlock && row.stage == Stage::kWorks) row.set = open;
  }
  static const Module module = conf::module<Settings>("probe", rows);
  static constexpr const Module* kModules[] = {&module};
  Diagnostics diagnostics;
  const Options options;
  auto configuration = compile_text(text, options, kModules, diagnostics);
  if (configuration == nullptr) return {diagnostics.format_all()};
  std::vector<std::string> out;
  for (const auto& [name, view] : views) {
    const Settings& settings = view.get<Settings>();
    std::string line = name + ":";
    for (std::uint32_t i = 0; i < settings.header_count; ++i) {
      line.append(" ").append(settings.headers[i]);
    }
    line += " /";
    for (std::uint32_t i = 0; i < settings.env_count; ++i) line.append(" ").append(settings.env[i]);
    out.push_back(line);
  }
  return out;
}

TEST(Compiler, ListsStartAfreshAndAppendsAdd) {
  EXPECT_THAT(
      lists("env m; http { add_header a; env h; add_header b; server { "
            "location /x { add_header c; env x; } location /y { env y; } } }"),
      ElementsAre("http: a b / m h", "server: a b / m h", "/x: c / m h x", "/y: a b / m h y"));
  EXPECT_THAT(lists("http { server { } }"), ElementsAre("http: default /", "server: default /"));
}

TEST(Compiler, ADuplicateInOneBlockIsAnError) {
  EXPECT_EQ(complaints("root a;\nroot b;"),
            "corehttpd: [emerg] \"root\" directive is duplicate in t.conf:2:1\n"
            "root b;\n"
            "^~~~\n"
            "  help: the first is in t.conf:1:1\n");
  EXPECT_EQ(complaints("http { } http { }"),
            "corehttpd: [emerg] \"http\" directive is duplicate in t.conf:1:10\n"
            "http { } http { }\n"
            "         ^~~~\n"
            "  help: the first is in t.conf:1:1\n");
  EXPECT_EQ(complaints("root a; http { root b; server { root c; } server { root d; } }"), "");
}

TEST(Compiler, UnknownNames) {
  EXPECT_EQ(complaints("http {\n\trot x;\n}"),
            "corehttpd: [emerg] unknown directive \"rot\" in t.conf:2:2\n"
            "\trot x;\n"
            "\t^~~\n"
            "  help: did you mean \"root\"?\n");
  EXPECT_EQ(complaints("zzzzzzzz;"),
            "corehttpd: [emerg] unknown directive \"zzzzzzzz\" in t.conf:1:1\n"
            "zzzzzzzz;\n"
            "^~~~~~~~\n");
  EXPECT_EQ(complaints("http { server { location ~ ^/a{2}/ { } } }"),
            "corehttpd: [emerg] unknown directive \"2}/\" in t.conf:1:32\n"
            "http { server { location ~ ^/a{2}/ { } } }\n"
            "                               ^~~\n"
            "  help: a regular expression with braces has to be quoted\n");
}

TEST(Compiler, NamesAllowedHereAreNearerThanOthers) {
  // "server" stands in http and in upstream, "serve" is one letter off both.
  EXPECT_THAT(complaints("http { serve { } }"), HasSubstr("did you mean \"server\"?"));
}

TEST(Compiler, Contexts) {
  EXPECT_EQ(complaints("listen 80;"),
            "corehttpd: [emerg] \"listen\" directive is not allowed here in t.conf:1:1\n"
            "listen 80;\n"
            "^~~~~~\n"
            "  help: this is \"main\"; allowed in: server\n");
  EXPECT_THAT(complaints("http { workers 2; }"), HasSubstr("this is \"http\"; allowed in: main\n"));
  EXPECT_THAT(complaints("server { }"), HasSubstr("allowed in: http, upstream\n"));
}

TEST(Compiler, OneNameMayHaveRowsInDisjointContexts) {
  auto out = compile(
      "http { upstream u { server a; server b; } server { if (x) { say s; } "
      "location / { if (y) { root r; } } } }");
  ASSERT_NE(out.configuration, nullptr) << out.diagnostics.format_all();
  EXPECT_THAT(events, testing::IsSupersetOf(
                          {"server a", "server b", "say s", "open server @1", "close if root=r"}));
  // root is allowed in location's if only: the row that opened the block decided.
  EXPECT_THAT(complaints("http { server { if (x) { root r; } } }"),
              HasSubstr("\"root\" directive is not allowed here"));
}

TEST(Compiler, Arity) {
  EXPECT_EQ(complaints("root;"),
            "corehttpd: [emerg] invalid number of arguments in \"root\" directive in t.conf:1:1\n"
            "root;\n"
            "^~~~\n"
            "  help: syntax: root path;\n");
  EXPECT_THAT(complaints("root a b;"), HasSubstr("invalid number of arguments"));
  EXPECT_THAT(complaints("http { server { location a b c { } } }"),
              HasSubstr("help: syntax: location [ = | ~ ] uri { ... }"));
  EXPECT_EQ(complaints("root a\ngzip on;"),
            "corehttpd: [emerg] invalid number of arguments in \"root\" directive in t.conf:1:1\n"
            "root a\n"
            "^~~~\n"
            "  help: is a \";\" missing at the end of line 1?\n");
  std::string many = "say";
  for (int i = 0; i < 1000; ++i) many += " w";
  EXPECT_EQ(complaints(many + ";"), "");
}

TEST(Compiler, Forms) {
  EXPECT_EQ(complaints("root a { }"),
            "corehttpd: [emerg] directive \"root\" is not terminated by \";\" in t.conf:1:1\n"
            "root a { }\n"
            "^~~~\n"
            "  help: syntax: root path;\n");
  EXPECT_EQ(complaints("http;"),
            "corehttpd: [emerg] directive \"http\" has no opening \"{\" in t.conf:1:1\n"
            "http;\n"
            "^~~~\n"
            "  help: syntax: http { ... }\n");
  EXPECT_EQ(complaints("http { server {\nlisten 80\nlocation / { } } }"),
            "corehttpd: [emerg] directive \"listen\" is not terminated by \";\" in t.conf:2:1\n"
            "listen 80\n"
            "^~~~~~\n"
            "  help: is a \";\" missing at the end of line 2?\n");
}

TEST(Compiler, Stages) {
  auto out = compile("epoll x y;\nhttp {\n  later_block a { nonsense; }\n  say on;\n}");
  ASSERT_NE(out.configuration, nullptr);
  EXPECT_THAT(events, testing::Contains("say on"));
  EXPECT_EQ(out.diagnostics.format_all(),
            "corehttpd: [notice] \"epoll\" directive has no meaning here and is ignored in "
            "t.conf:1:1\n"
            "epoll x y;\n"
            "^~~~~\n"
            "  help: The loop needs no choice.\n"
            "corehttpd: [notice] \"later_block\" directive is not supported yet and is ignored in "
            "t.conf:3:3\n"
            "  later_block a { nonsense; }\n"
            "  ^~~~~~~~~~~\n"
            "  help: Waits for blocks.\n");
  EXPECT_EQ(complaints("http { guard all; }"),
            "corehttpd: [emerg] \"guard\" directive is not supported in t.conf:1:8\n"
            "http { guard all; }\n"
            "       ^~~~~\n"
            "  help: Without it all would be let in.\n");
}

TEST(Compiler, AllErrorsAreReportedInTheOrderOfTheFile) {
  auto out = compile(
      "http {\n"
      "  server { listen bad; location / { rot x; } }\n"
      "  foo bar;\n"
      "  server { listen silent; gzip maybe; }\n"
      "}\n"
      "workers 0;\n");
  EXPECT_EQ(out.configuration, nullptr);
  std::vector<std::string> said;
  for (const Diagnostic& d : out.diagnostics.all()) {
    said.push_back(fmt::format("{}:{} {}", d.line, d.column, d.message));
  }
  EXPECT_THAT(
      said, ElementsAre("2:19 invalid port in \"bad\"", "2:37 unknown directive \"rot\"",
                        "3:3 unknown directive \"foo\"", "4:12 \"listen\" directive invalid value",
                        "4:32 invalid value \"maybe\" in \"gzip\" directive, it must be \"on\" "
                        "or \"off\"",
                        "6:9 value must be between 1 and 64"));
  EXPECT_EQ(out.diagnostics.errors(), 6u);
  // Neither closed nor finished: nothing may be built on what is wrong.
  EXPECT_THAT(events, testing::Not(testing::Contains("finish")));
  EXPECT_THAT(events, testing::Not(testing::Contains(HasSubstr("close"))));
}

TEST(Compiler, ARefusedBlockIsNotEntered) {
  EXPECT_EQ(complaints("http { server { location refuse { nonsense; } } }"),
            "corehttpd: [emerg] \"location\" directive invalid value in t.conf:1:17\n"
            "http { server { location refuse { nonsense; } } }\n"
            "                ^~~~~~~~\n");
}

TEST(Compiler, AFailedCloseIsAnError) {
  EXPECT_EQ(complaints("http { server { root unclosable; } }"),
            "corehttpd: [emerg] \"server\" directive is invalid in t.conf:1:8\n"
            "http { server { root unclosable; } }\n"
            "       ^~~~~~\n");
}

TEST(Compiler, WarningsDoNotRefuse) {
  auto out = compile("http { server { listen trap; } }");
  EXPECT_NE(out.configuration, nullptr);
  EXPECT_EQ(out.diagnostics.warnings(), 1u);
  EXPECT_EQ(out.diagnostics.format_all(),
            "corehttpd: [warn] careful with \"trap\" in t.conf:1:24\n"
            "http { server { listen trap; } }\n"
            "                       ^~~~\n");
}

TEST(Compiler, TablesThatDisagreeAreRefused) {
  static constexpr Directive kRows[] = {
      {.name = "gzip", .contexts = Context::kHttp, .set = set_nothing, .doc = "Again."}};
  struct Empty {};
  static constexpr Module kAgain = module<Empty>("again", kRows);
  static constexpr const Module* kModules[] = {&probe::kModule, &kAgain};
  Diagnostics diagnostics;
  const Options options;
  EXPECT_EQ(compile_text("", options, kModules, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.format_all(),
            "corehttpd: [emerg] \"gzip\" directive is declared by both \"probe\" and \"again\" for "
            "http\n");
}

TEST(Compiler, ARowWithoutASetterIsRefused) {
  static constexpr Directive kRows[] = {
      {.name = "idle", .contexts = Context::kHttp, .set = nullptr, .doc = "Nothing."}};
  struct Empty {};
  static constexpr Module kIdle = module<Empty>("idle", kRows);
  static constexpr const Module* kModules[] = {&kIdle};
  Diagnostics diagnostics;
  const Options options;
  EXPECT_EQ(compile_text("", options, kModules, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.format_all(),
            "corehttpd: [emerg] \"idle\" directive of \"idle\" has no setter\n");
}

TEST(Compiler, ObjectsAndPrepare) {
  struct Registry {
    int value = 0;
  };
  Diagnostics diagnostics;
  const Options options;
  auto configuration =
      compile_text("", options, probe::kModules, diagnostics,
                   [](Compiler& compiler) { compiler.object_or_make<Registry>().value = 7; });
  ASSERT_NE(configuration, nullptr);
  ASSERT_NE(configuration->object<Registry>(), nullptr);
  EXPECT_EQ(configuration->object<Registry>()->value, 7);
  EXPECT_EQ(configuration->object<int>(), nullptr);
}

TEST(Compiler, SetterMayCompileABlockItself) {
  static constexpr Directive kRows[] = {
      {.name = "outer",
       .contexts = Context::kMain,
       .kind = Kind::kRawBlock,
       .arity = exactly(0),
       .set =
           [](const Setting& s) {
             Scope& scope = s.compiler.make_scope(s.scope, Context::kHttp, &s.node);
             return s.compiler.compile_children(s.node, scope);
           },
       .doc = "A block."},
      {.name = "say", .contexts = Context::kHttp, .set = probe::say, .doc = "Says."}};
  struct Empty {};
  static constexpr Module kModule = module<Empty>("own", kRows);
  static constexpr const Module* kModules[] = {&kModule};
  Diagnostics diagnostics;
  const Options options;
  events.clear();
  EXPECT_NE(compile_text("outer { say x; }", options, kModules, diagnostics), nullptr);
  EXPECT_THAT(events, ElementsAre("say x"));
  EXPECT_EQ(compile_text("outer { say x y; }", options, kModules, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.errors(), 1u);
}

}  // namespace
}  // namespace corehttpd::conf
