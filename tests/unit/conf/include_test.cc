// Files: include, globs, cycles, the fallback directory, and the dump of -T.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "unit/conf/probe.h"

namespace corehttpd::conf {
namespace {

using probe::events;
using testing::ElementsAre;
using testing::HasSubstr;

class Include : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/conf_include_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void write(const std::string& name, std::string_view text) {
    const std::filesystem::path path = dir_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // Compiles main.conf.
  std::unique_ptr<Configuration> run() {
    events.clear();
    diagnostics_ = {};
    options_.path = dir_ + "/main.conf";
    return compile(options_, probe::kModules, diagnostics_);
  }
  // The diagnostics with the directory's name taken out.
  std::string said() {
    std::string text = diagnostics_.format_all();
    for (std::size_t at; (at = text.find(dir_)) != std::string::npos;) {
      text.replace(at, dir_.size(), "DIR");
    }
    return text;
  }

  std::string dir_;
  Options options_{.prefix = "/srv/"};
  Diagnostics diagnostics_;
};

TEST_F(Include, SplicesWhereItStands) {
  write("main.conf", "say 1; include a.conf; say 4; http { include b.conf; }");
  write("a.conf", "say 2;\nsay 3;");
  write("b.conf", "say 5; server { listen 1; include ports; }");
  write("ports", "listen 2; # no newline at the end");
  ASSERT_NE(run(), nullptr) << said();
  EXPECT_THAT(events, ElementsAre("say 1", "say 2", "say 3", "say 4", "open http @4", "say 5",
                                  "open server @1", "listen 1 @0", "listen 2 @1",
                                  "close server root=html", "close http root=html", "finish"));
}

TEST_F(Include, RelativeToTheMainFileAlsoFromBelow) {
  write("main.conf", "include sub/a.conf;");
  write("sub/a.conf", "include sub/b.conf;");
  write("sub/b.conf", "say b;");
  ASSERT_NE(run(), nullptr) << said();
  EXPECT_THAT(events, ElementsAre("say b", "finish"));
}

TEST_F(Include, GlobsAreSortedByBytesAndMayMatchNothing) {
  write("main.conf", "include d/*.conf; include none/*; include d/[xy]; include d/?;");
  for (const char* name :
       {"b.conf", "a.conf", "B.conf", "10.conf", "9.conf", ".hidden.conf", "x"}) {
    write(std::string("d/") + name, std::string("say ") + name + ";");
  }
  ASSERT_NE(run(), nullptr) << said();
  EXPECT_THAT(events, ElementsAre("say 10.conf", "say 9.conf", "say B.conf", "say a.conf",
                                  "say b.conf", "say x", "say x", "finish"));
}

TEST_F(Include, AMissingFileIsAnErrorAndTheRestIsChecked) {
  write("main.conf", "include nowhere.conf;\nnonsense;\n");
  EXPECT_EQ(run(), nullptr);
  EXPECT_EQ(said(),
            "corehttpd: [emerg] open() \"DIR/nowhere.conf\" failed (2: No such file or directory) "
            "in DIR/main.conf:1:9\n"
            "include nowhere.conf;\n"
            "        ^~~~~~~~~~~~\n"
            "  help: relative names start at the directory of the main file\n"
            "corehttpd: [emerg] unknown directive \"nonsense\" in DIR/main.conf:2:1\n"
            "nonsense;\n"
            "^~~~~~~~\n");
}

TEST_F(Include, AMissingMainFile) {
  EXPECT_EQ(run(), nullptr);
  EXPECT_EQ(said(),
            "corehttpd: [emerg] open() \"DIR/main.conf\" failed (2: No such file or directory)\n");
}

TEST_F(Include, ADirectoryIsNoFile) {
  write("main.conf", "include d*;");
  write("d/x", "");
  EXPECT_EQ(run(), nullptr);
  EXPECT_THAT(said(), HasSubstr("open() \"DIR/d\" failed (21: Is a directory)"));
}

TEST_F(Include, Forms) {
  write("main.conf", "include;\ninclude a b;\ninclude a { }\n");
  EXPECT_EQ(run(), nullptr);
  EXPECT_EQ(said(),
            "corehttpd: [emerg] invalid number of arguments in \"include\" directive in "
            "DIR/main.conf:1:1\n"
            "include;\n"
            "^~~~~~~\n"
            "  help: syntax: include file | mask;\n"
            "corehttpd: [emerg] invalid number of arguments in \"include\" directive in "
            "DIR/main.conf:2:1\n"
            "include a b;\n"
            "^~~~~~~\n"
            "  help: syntax: include file | mask;\n"
            "corehttpd: [emerg] directive \"include\" is not terminated by \";\" in "
            "DIR/main.conf:3:1\n"
            "include a { }\n"
            "^~~~~~~\n");
}

TEST_F(Include, CyclesAreFound) {
  write("main.conf", "include a.conf;");
  write("a.conf", "say a;\ninclude b.conf;");
  write("b.conf", "include ./a.conf;");  // Another spelling of the same file.
  EXPECT_EQ(run(), nullptr);
  EXPECT_EQ(said(),
            "corehttpd: [emerg] \"DIR/./a.conf\" includes itself in DIR/b.conf:1:9\n"
            "include ./a.conf;\n"
            "        ^~~~~~~~\n"
            "  help: DIR/a.conf includes DIR/b.conf includes DIR/./a.conf\n");
}

TEST_F(Include, DepthIsBounded) {
  write("main.conf", "include 0;");
  for (int i = 0; i < 40; ++i) {
    write(std::to_string(i), "include " + std::to_string(i + 1) + ";");
  }
  write("40", "");
  EXPECT_EQ(run(), nullptr);
  EXPECT_THAT(said(), HasSubstr("includes are too deeply nested in DIR/30:1:9"));
}

TEST_F(Include, MultiplyingIncludesAreBounded) {
  write("main.conf", "include 0;");
  for (int i = 0; i < 30; ++i) {
    const std::string next = "include " + std::to_string(i + 1) + ";";
    write(std::to_string(i), next + next);
  }
  write("30", "say x;");
  EXPECT_EQ(run(), nullptr);
  EXPECT_THAT(said(), HasSubstr("too many directives"));
  EXPECT_EQ(diagnostics_.errors(), 1u);
}

TEST_F(Include, AFileIncludedOftenIsReportedOnce) {
  write("main.conf", "include a; http { include a; }");
  write("a", "say \"x\"y;");
  EXPECT_EQ(run(), nullptr);
  EXPECT_EQ(diagnostics_.errors(), 1u);
}

TEST_F(Include, BlocksDoNotSpanFiles) {
  write("main.conf", "http {\ninclude a;\n}");
  write("a", "server {");
  EXPECT_EQ(run(), nullptr);
  EXPECT_EQ(said(),
            "corehttpd: [emerg] unexpected end of file, expecting \"}\" in DIR/a:1:9\n"
            "server {\n"
            "        ^\n"
            "  help: the \"server\" block opened at DIR/a:1:1 is not closed\n");
  write("a", "}");
  EXPECT_EQ(run(), nullptr);
  EXPECT_THAT(said(), HasSubstr("unexpected \"}\" in DIR/a:1:1"));
}

TEST_F(Include, InRawBlocks) {
  write("main.conf", "http { types { include mime; } }");
  write("mime", "a/b c d;\ne/f g;");
  auto configuration = run();
  ASSERT_NE(configuration, nullptr) << said();
  write("mime", "a/b { c; }");
  EXPECT_EQ(run(), nullptr);
  EXPECT_THAT(said(), HasSubstr("unexpected \"{\" in DIR/mime:1:5"));
}

TEST_F(Include, FallbackForFilesOfAnotherPackage) {
  options_.fallback_directory = dir_ + "/shipped";
  write("shipped/corehttpd_test.types", "say shipped;");
  write("main.conf", "include /etc/nginx/corehttpd_test.types;");
  ASSERT_NE(run(), nullptr) << said();
  EXPECT_THAT(events, ElementsAre("say shipped", "finish"));
  EXPECT_EQ(said(),
            "corehttpd: [notice] \"/etc/nginx/corehttpd_test.types\" does not exist, "
            "\"DIR/shipped/corehttpd_test.types\" is used instead in DIR/main.conf:1:9\n"
            "include /etc/nginx/corehttpd_test.types;\n"
            "        ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");

  write("secret", "say secret;");
  write("main.conf", "include /etc/nginx/../secret;");
  EXPECT_EQ(run(), nullptr);
  write("main.conf", "include /etc/corehttpd_test.types;");
  EXPECT_EQ(run(), nullptr);
  options_.fallback_directory.clear();
  write("main.conf", "include /etc/nginx/corehttpd_test.types;");
  EXPECT_EQ(run(), nullptr);
}

TEST_F(Include, DumpShowsEachFileOnce) {
  write("main.conf", "include a.conf; http { include a.conf; }\n");
  write("a.conf", "say a;");
  options_.path = dir_ + "/main.conf";
  const auto text = dump(options_, diagnostics_);
  ASSERT_TRUE(text.has_value()) << said();
  EXPECT_EQ(*text, "# configuration file " + dir_ +
                       "/main.conf:\ninclude a.conf; http { include a.conf; }\n\n"
                       "# configuration file " +
                       dir_ + "/a.conf:\nsay a;\n");
  write("a.conf", "say");
  EXPECT_FALSE(dump(options_, diagnostics_).has_value());
}

TEST_F(Include, DiagnosticsFollowTheOrderOfReading) {
  write("main.conf", "http { include z; }\nbad1;\ninclude a;");
  write("z", "bad2;");
  write("a", "bad3;");
  EXPECT_EQ(run(), nullptr);
  std::vector<std::string> messages;
  for (const Diagnostic& d : diagnostics_.all()) messages.push_back(d.message);
  EXPECT_THAT(messages, ElementsAre("unknown directive \"bad1\"", "unknown directive \"bad2\"",
                                    "unknown directive \"bad3\""));
}

}  // namespace
}  // namespace corehttpd::conf
