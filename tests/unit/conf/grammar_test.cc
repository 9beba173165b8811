// nginx's grammar: words, quotes, escapes, braces, and each of its syntax errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/conf/probe.h"

namespace corehttpd::conf {
namespace {

using probe::complaints;
using probe::events;
using testing::ElementsAre;
using testing::HasSubstr;

// The words of a single "say" statement, joined by '|'; or the errors.
std::string words(std::string_view text) {
  const auto out = probe::compile(text);
  if (out.configuration == nullptr) return out.diagnostics.format_all();
  std::string all;
  for (const std::string& event : events) {
    if (event != "finish") all.append(all.empty() ? "" : "\n").append(event);
  }
  return all;
}

TEST(Grammar, WordsAreCutAtBlanksAndTerminators) {
  EXPECT_EQ(words("say a b\tc\r\nd;"), "say a|b|c|d");
  EXPECT_EQ(words("say;"), "say");
  EXPECT_EQ(words("say a;say b;"), "say a\nsay b");
  EXPECT_EQ(words("  \n\n say a\n;"), "say a");
}

TEST(Grammar, QuotesKeepBlanksAndTerminators) {
  EXPECT_EQ(words("say \"a b\" 'c;d{e}' \"\" '';"), "say a b|c;d{e}||");
  EXPECT_EQ(words("say \"it's\" 'say \"x\"';"), "say it's|say \"x\"");
  EXPECT_EQ(words("say 'two\nlines';"), "say two\nlines");
}

TEST(Grammar, QuotesInsideAWordAreLetters) {
  EXPECT_EQ(words("say a\"b\" c'd e'f;"), "say a\"b\"|c'd|e'f");
}

TEST(Grammar, BackslashesBeforeQuotesAndBackslashesAreDropped) {
  EXPECT_EQ(words(R"(say "a\"b" 'c\'d' "e\\f" g\\h;)"), R"(say a"b|c'd|e\f|g\h)");
  EXPECT_EQ(words(R"(say "\'" '\"';)"), "say '|\"");
}

TEST(Grammar, LetterEscapesBecomeControlCharacters) {
  EXPECT_EQ(words(R"(say "a\tb\rc\nd" e\tf;)"), "say a\tb\rc\nd|e\tf");
}

TEST(Grammar, OtherBackslashesStayForRegularExpressions) {
  EXPECT_EQ(words(R"(say \.php$ "^/(\d+)\.x$" \$a;)"), R"(say \.php$|^/(\d+)\.x$|\$a)");
}

TEST(Grammar, ABackslashProtectsBlanksAndTerminatorsButStays) {
  EXPECT_EQ(words(R"(say a\ b c\;d e\{f;)"), R"(say a\ b|c\;d|e\{f)");
  EXPECT_EQ(words("say \\;x;"), "say \\;x");
}

TEST(Grammar, EscapedBackslashDoesNotEscapeWhatFollows) {
  EXPECT_EQ(words(R"(say "\\n" "x\\";)"), R"(say \n|x\)");
}

TEST(Grammar, BracesBehindADollarBelongToTheWord) {
  EXPECT_EQ(words("say ${a} x${b}y \"${c}\" $d;"), "say ${a}|x${b}y|${c}|$d");
  // nginx goes on taking braces directly behind the first.
  EXPECT_EQ(words("say ${{a}};"), "say ${{a}}");
}

TEST(Grammar, AClosingBraceInsideAWordIsALetter) { EXPECT_EQ(words("say a}b c};"), "say a}b|c}"); }

TEST(Grammar, CommentsStartOnlyWhereAWordWould) {
  EXPECT_EQ(words("# one; {\nsay a # two ;}\n b#c;# three"), "say a|b#c");
  EXPECT_EQ(words("say '#x';"), "say #x");
}

TEST(Grammar, ByteOrderMarkAndLineEndsOfWindows) {
  EXPECT_EQ(words("\xef\xbb\xbfsay a;\r\nsay b;\r\n"), "say a\nsay b");
}

TEST(Grammar, QuotedNameIsADirectiveToo) { EXPECT_EQ(words("\"say\" a;"), "say a"); }

TEST(Grammar, NothingIsAConfiguration) {
  EXPECT_EQ(words(""), "");
  EXPECT_EQ(words("# only a comment"), "");
}

TEST(Grammar, ClosingParenthesisMayFollowAQuote) {
  probe::compile("http { server { if ($a = \"b\") { say x; } } }");
  EXPECT_THAT(events, testing::Contains("open if @0 ($a = b )"));
}

TEST(Grammar, OtherCharactersBehindAQuoteAreUnexpected) {
  EXPECT_EQ(complaints("say \"a\"b;"),
            "corehttpd: [emerg] unexpected \"b\" in t.conf:1:8\n"
            "say \"a\"b;\n"
            "       ^\n");
  EXPECT_THAT(complaints("say 'a'#;\n;"), HasSubstr("unexpected \"#\" in t.conf:1:8"));
  EXPECT_THAT(complaints("say 'a'\x01;"), HasSubstr("unexpected \"\\x01\""));
}

TEST(Grammar, UnexpectedTerminators) {
  EXPECT_EQ(complaints("say a;;"),
            "corehttpd: [emerg] unexpected \";\" in t.conf:1:7\n"
            "say a;;\n"
            "      ^\n");
  EXPECT_EQ(complaints("{ say a; }"),
            "corehttpd: [emerg] unexpected \"{\" in t.conf:1:1\n"
            "{ say a; }\n"
            "^\n");
  EXPECT_EQ(complaints("say a; }"),
            "corehttpd: [emerg] unexpected \"}\" in t.conf:1:8\n"
            "say a; }\n"
            "       ^\n");
}

TEST(Grammar, MissingSemicolonBeforeABrace) {
  EXPECT_EQ(complaints("http {\n  root x\n}"),
            "corehttpd: [emerg] unexpected \"}\" in t.conf:3:1\n"
            "}\n"
            "^\n");
}

TEST(Grammar, UnfinishedFiles) {
  EXPECT_EQ(complaints("say a"),
            "corehttpd: [emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:1:6\n"
            "say a\n"
            "     ^\n");
  EXPECT_EQ(complaints("http {\n server {\n say a;\n }\n"),
            "corehttpd: [emerg] unexpected end of file, expecting \"}\" in t.conf:5:1\n"
            "  help: the \"http\" block opened at t.conf:1:1 is not closed\n");
  EXPECT_EQ(complaints("say \"abc;\n"),
            "corehttpd: [emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:2:1\n"
            "  help: the quote \" opened at t.conf:1:5 is not closed\n");
  EXPECT_THAT(complaints("say abc\\"), HasSubstr("unexpected end of file"));
  EXPECT_THAT(complaints("say 'abc\\"), HasSubstr("the quote ' opened at t.conf:1:5"));
}

TEST(Grammar, UnbalancedBlocksAreNotCompiled) {
  // "nonsense" would be unknown, but an extra brace may have put it where it was not meant.
  EXPECT_EQ(complaints("http { } }\nnonsense;"),
            "corehttpd: [emerg] unexpected \"}\" in t.conf:1:10\n"
            "http { } }\n"
            "         ^\n");
}

TEST(Grammar, NulBytesAreRefused) {
  using namespace std::string_view_literals;
  EXPECT_EQ(complaints("say a;\nsay b\0c;"sv),
            "corehttpd: [emerg] unexpected NUL byte in t.conf:2:6\n"
            "say b?c;\n"
            "     ^\n"
            "  help: is this a text file?\n");
}

TEST(Grammar, WordsAreBounded) {
  const std::string most(kWordBytesMax, 'x');
  EXPECT_EQ(words("say " + most + ";"), "say " + most);
  EXPECT_EQ(words("say '" + most + "';"), "say " + most);
  EXPECT_THAT(complaints("say " + most + "x;"),
              HasSubstr("too long parameter \"xxxxxxxxxx...\" started in t.conf:1:5"));
  EXPECT_THAT(complaints("say '" + most + "x';"),
              HasSubstr("too long parameter, probably missing terminating \"'\" character"));
}

TEST(Grammar, NestingIsBounded) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "a{";
  EXPECT_THAT(complaints(text), HasSubstr("too deeply nested block"));
}

TEST(Grammar, RawBlocksHoldWords) {
  auto out = probe::compile("http { types { a/b x y; 'c d' z; } }");
  ASSERT_NE(out.configuration, nullptr) << out.diagnostics.format_all();
  EXPECT_EQ(complaints("http { types { ~^a{2} x; } }"),
            "corehttpd: [emerg] unexpected \"{\" in t.conf:1:19\n"
            "http { types { ~^a{2} x; } }\n"
            "                  ^\n"
            "  help: a word with braces has to be quoted\n");
}

TEST(Grammar, CommandLineDirectives) {
  Options options = {.prefix = "/srv/", .path = "t.conf", .global_text = "say global; root x;"};
  auto out = probe::compile("say file;", options);
  ASSERT_NE(out.configuration, nullptr) << out.diagnostics.format_all();
  EXPECT_THAT(events, ElementsAre("say global", "say file", "finish"));
  EXPECT_EQ(out.root().root, "x");

  options.global_text = "say a";
  EXPECT_EQ(probe::compile("", options).diagnostics.format_all(),
            "corehttpd: [emerg] unexpected end of parameter, expecting \";\" in command line:1:6\n"
            "say a\n     ^\n");
  options.global_text = "http { }";
  EXPECT_THAT(probe::compile("", options).diagnostics.format_all(),
              HasSubstr("block directives are not supported in -g option in command line:1:6"));
}

}  // namespace
}  // namespace corehttpd::conf
