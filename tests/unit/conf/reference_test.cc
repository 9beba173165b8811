// --describe, the Markdown reference, and the table of what comes later.
#include "corehttpd/conf/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "corehttpd/conf/later.h"
#include "unit/conf/probe.h"

namespace corehttpd::conf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Reference, DescribesOneDirective) {
  EXPECT_EQ(describe(probe::kModules, "gzip"),
            "gzip on | off;\n"
            "  default:     gzip on;\n"
            "  context:     main, http, server, location\n"
            "  inheritance: a nested block's value replaces the outer one; once per block\n"
            "  module:      probe\n"
            "  Compresses.\n");
  EXPECT_EQ(describe(probe::kModules, "guard"),
            "guard who;\n"
            "  default:     none\n"
            "  context:     http, server, location\n"
            "  state:       refused\n"
            "  module:      probe\n"
            "  Without it all would be let in.\n");
  EXPECT_EQ(describe(probe::kModules, "nothing"), "");
}

TEST(Reference, DescribesEachRowOfAName) {
  const std::string text = describe(probe::kModules, "server");
  EXPECT_THAT(text, HasSubstr("server { ... }\n"));
  EXPECT_THAT(text, HasSubstr("server address;\n"));
}

TEST(Reference, ListsAllSortedByName) {
  const std::string text = describe_all(probe::kModules);
  EXPECT_TRUE(text.starts_with("add_header name;  [http, server, location]\n")) << text;
  EXPECT_THAT(text, HasSubstr("guard who;  [http, server, location]  refused\ngzip"));
}

TEST(Reference, Markdown) {
  EXPECT_EQ(reference_markdown(probe::kModules, probe::kOther),
            "# other\n"
            "\n"
            "Generated from the directive table of this module; changes belong there.\n"
            "\n"
            "## server\n"
            "\n"
            "An origin.\n"
            "\n"
            "- **Syntax:** `server address;`\n"
            "- **Default:** none\n"
            "- **Context:** upstream\n"
            "- **Inheritance:** not inherited\n"
            "\n"
            "## types\n"
            "\n"
            "Types of files.\n"
            "\n"
            "- **Syntax:** `types { ... }`\n"
            "- **Default:** `types { text/html html; image/png png; }`\n"
            "- **Context:** http, server, location\n"
            "- **Inheritance:** a nested block's value replaces the outer one; once per block\n"
            "\n"
            "## upstream\n"
            "\n"
            "Origins.\n"
            "\n"
            "- **Syntax:** `upstream name { ... }`\n"
            "- **Default:** none\n"
            "- **Context:** http\n"
            "- **Inheritance:** not inherited\n");
}

TEST(Reference, NearestNames) {
  EXPECT_THAT(nearest_names(probe::kModules, "gzpi"), IsEmpty());  // Two letters of four.
  EXPECT_THAT(nearest_names(probe::kModules, "gzp"), ElementsAre("gzip"));
  EXPECT_THAT(nearest_names(probe::kModules, "add_heder"), ElementsAre("add_header"));
}

std::span<const Module* const> with_later() {
  static const Module* const kAll[] = {&probe::kModule, &probe::kOther, &later_module()};
  return kAll;
}

TEST(Later, TableAgreesWithItself) {
  const Module* const alone[] = {&later_module()};
  EXPECT_THAT(table_conflicts(alone), IsEmpty());
  for (const Directive& d : later_module().directives) {
    EXPECT_TRUE(d.doc.ends_with('.')) << d.name;
    EXPECT_NE(d.contexts, Context::kNone) << d.name;
    EXPECT_NE(d.stage, Stage::kWorks) << d.name;
  }
  EXPECT_GT(later_module().directives.size(), 550u);
}

TEST(Later, YieldsToWhoeverDeclaresTheName) {
  EXPECT_THAT(table_conflicts(with_later()), IsEmpty());
  // gzip is the probe's in http, server and location; the later row keeps "if in location".
  EXPECT_THAT(describe(with_later(), "gzip"),
              HasSubstr("context:     if in location\n  state:       accepted, not supported yet"));
  std::vector<std::string_view> names;
  for (const Directive* row : shadowed_rows(with_later())) names.push_back(row->name);
  EXPECT_THAT(names, ElementsAre("env", "if", "upstream"));
  Diagnostics diagnostics;
  const Options options;
  auto configuration =
      compile_text("http { gzip off; charset utf-8; }", options, with_later(), diagnostics);
  EXPECT_NE(configuration, nullptr) << diagnostics.format_all();
  ASSERT_EQ(diagnostics.all().size(), 1u);
  EXPECT_EQ(diagnostics.all()[0].message,
            "\"charset\" directive is not supported yet and is ignored");
  EXPECT_EQ(diagnostics.all()[0].help, "Waits for character sets.");
}

// What a configuration of later directives only comes to.
std::string verdict(std::string_view text) {
  Diagnostics diagnostics;
  const Options options;
  auto configuration = compile_text(text, options, with_later(), diagnostics);
  return fmt::format("{} {}", configuration != nullptr ? "accepted" : "refused",
                     diagnostics.all().size());
}

TEST(Later, GuardsAreRefused) {
  for (const char* guard : {"limit_req zone=a;", "limit_conn a 1;", "secure_link a;",
                            "disable_symlinks on;", "auth_jwt a;"}) {
    EXPECT_EQ(verdict(std::string("http { ") + guard + " }"), "refused 1") << guard;
  }
  for (const char* guard : {"internal;", "valid_referers none;", "proxy_pass http://a;",
                            "uwsgi_pass a;", "return 403;"}) {
    EXPECT_EQ(verdict(std::string("http { server { location / { ") + guard + " } } }"), "refused 1")
        << guard;
  }
  EXPECT_EQ(verdict("http { server { ssl_ocsp on; } }"), "refused 1");
}

TEST(Later, TheRestIsAcceptedWithANotice) {
  EXPECT_EQ(verdict("load_module x; worker_priority -5; worker_cpu_affinity auto;"), "accepted 3");
  EXPECT_EQ(verdict("stream { server { listen 1; } map $a $b { x y; } }"), "accepted 1");
  EXPECT_EQ(verdict("http { geo $a { default 0; } split_clients $x $y { 1% a; * b; } }"),
            "accepted 2");
  EXPECT_EQ(
      verdict("http { proxy_cache_path /a; fastcgi_cache_path /b; uwsgi_cache_path /c; "
              "fastcgi_cache_use_stale error; scgi_buffers 4 8k; grpc_read_timeout 1; "
              "open_file_cache max=1; open_file_cache_valid 60s; aio threads; directio 1m; }"),
      "accepted 10");
  EXPECT_EQ(verdict("http { server { ssl_key_log a; ssl_key_log b; location / { "
                    "autoindex on; mp4; sub_filter a b; sub_filter c d; } } }"),
            "accepted 6");
}

}  // namespace
}  // namespace corehttpd::conf
