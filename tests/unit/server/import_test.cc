// The parts of import-nginx that rewrite text: edits by offsets, statements found in it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "server/import/edits.h"
#include "server/import/effects.h"
#include "server/import/source_file.h"

namespace corehttpd::server::importer {
namespace {

TEST(ImportEdits, CommentsOutLinesAsTheyStand) {
  const std::string text = "a;\n    b 1\n      2;  # why\nc;\n";
  Edits edits;
  edits.comment_out(text, text.find("b"), text.find(';', 4) + 1, "note");
  EXPECT_EQ(edits.apply(text), "a;\n    # note\n    # b 1\n    #   2;  # why\nc;\n");
}

TEST(ImportEdits, CommentsOutWhatSharesItsLine) {
  const std::string text = "x { a; b; c; }\n";
  Edits edits;
  edits.comment_out(text, 7, 9, "note");
  EXPECT_EQ(edits.apply(text), "x { a;\n# note\n# b;\n c; }\n");
}

TEST(ImportEdits, AnOuterEditTakesInnerOnesAway) {
  const std::string text = "x {\n  a;\n}\n";
  Edits edits;
  edits.replace(6, 7, "inner");
  edits.comment_out(text, 0, text.size() - 1, "note");
  EXPECT_EQ(edits.apply(text), "# note\n# x {\n#   a;\n# }\n");
}

TEST(ImportEdits, LinesAtTheStartAndTheEndOfBlocks) {
  const std::string text = "x {  # why\n    a;\n}\ny { b; }\n";
  Edits edits;
  edits.prepend_to_block(text, 0, 3, "first;");
  edits.append_to_block(text, 0, text.find('}'), "last;");
  const std::size_t y = text.find('y', 12);
  edits.prepend_to_block(text, y, y + 3, "first;");
  edits.append_to_block(text, y, text.rfind('}'), "last;");
  EXPECT_EQ(
      edits.apply(text),
      "x {  # why\n    first;\n    a;\n    last;\n}\ny {\n    first;\n     b; \n    last;\n}\n");
}

TEST(ImportEdits, OffsetsLeadBack) {
  const std::string text = "0123456789";
  Edits edits;
  edits.replace(2, 4, "abc");
  edits.replace(6, 6, "X");
  edits.replace(8, 9, "");
  const std::string applied = edits.apply(text);
  ASSERT_EQ(applied, "01abc45X679");
  for (std::size_t i = 0; i < applied.size(); ++i) {
    const std::size_t origin = edits.original_offset(i);
    const char c = applied[i];
    if (c == 'X') {
      EXPECT_EQ(origin, 6u);
    } else if (c >= 'a') {
      EXPECT_EQ(origin, 2u);
    } else {
      EXPECT_EQ(text[origin], c) << i;
    }
  }
  EXPECT_EQ(edits.original_offset(applied.size()), text.size());
}

TEST(ImportLua, EndsWhereLuaSaysSo) {
  const auto rest = [](std::string_view text) {
    const std::size_t end = lua_block_end(text, 0);
    return end == std::string_view::npos ? "none" : std::string(text.substr(end));
  };
  EXPECT_EQ(rest("}x"), "x");
  EXPECT_EQ(rest("{}}x"), "x");
  EXPECT_EQ(rest("'}' \"}\\\"}\" }x"), "x");
  EXPECT_EQ(rest("-- it's }\n}x"), "x");
  EXPECT_EQ(rest("--[[ }\n ' ]] }x"), "x");
  EXPECT_EQ(rest("a[b[1]] [==[ ]] } ]==] }x"), "x");
  EXPECT_EQ(rest("'}"), "none");
  EXPECT_EQ(rest("--[[ }"), "none");
  EXPECT_EQ(rest("'\\"), "none");
  EXPECT_EQ(rest(""), "none");
}

class ImportSource : public testing::Test {
 protected:
  void SetUp() override {
    const int fd = ::mkstemp(path_);
    ASSERT_GE(fd, 0);
    ::close(fd);
  }
  void TearDown() override { ::unlink(path_); }
  void write(std::string_view text) {
    std::FILE* file = std::fopen(path_, "we");
    ASSERT_NE(file, nullptr);
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
  char path_[32] = "/tmp/core-import-XXXXXX";
};

TEST_F(ImportSource, WordsAreWhereTheyStand) {
  write("\xef\xbb\xbf a \"b;\\\" c\" ${d}e;\nif ($x = \"y\") {\n z; }\n");
  const SourceFile file(path_, "shown");
  ASSERT_EQ(file.state(), SourceFile::State::kRead) << file.error();
  EXPECT_TRUE(file.has_byte_order_mark());
  ASSERT_EQ(file.statements().size(), 2u);
  for (const Statement& statement : file.statements()) {
    for (const Token& word : statement.words) {
      const std::string raw = file.text().substr(word.begin, word.end - word.begin);
      if (word.quoted) {
        EXPECT_TRUE(raw == "\"b;\\\" c\"" || raw == "\"y\"") << raw;
      } else {
        EXPECT_EQ(raw, word.value);
      }
    }
  }
  const Statement& block = file.statements()[1];
  EXPECT_EQ(file.text().substr(block.body_begin, block.body_end - block.body_begin), "\n z; ");
  EXPECT_EQ(block.line, 2u);
  const std::size_t z = file.text().find('z');
  EXPECT_EQ(file.statement_at(z)->name(), "z");
  EXPECT_EQ(file.statement_at(block.begin + 1), &block);
  EXPECT_EQ(file.statement_at(0), nullptr);
}

TEST_F(ImportSource, WhatIsNoConfiguration) {
  using State = SourceFile::State;
  const std::pair<std::string, State> cases[] = {{"a {", State::kBroken},
                                                 {"}", State::kBroken},
                                                 {"a", State::kBroken},
                                                 {"a \"b;", State::kBroken},
                                                 {"a_by_lua_block { ' }", State::kBroken},
                                                 {std::string("a\0b;", 4), State::kBinary},
                                                 {"", State::kRead}};
  for (const auto& [text, state] : cases) {
    write(text);
    EXPECT_EQ(SourceFile(path_, "shown").state(), state) << text;
  }
  EXPECT_EQ(SourceFile("/nonexistent", "shown").state(), State::kUnreadable);
  EXPECT_EQ(SourceFile("/tmp", "shown").state(), State::kUnreadable);
}

TEST(ImportEffects, AddressesOfOnesOwn) {
  for (const char* own : {"127.0.0.1", "10.0.0.0/8", "172.16.0.0/12", "172.31.1.1", "192.168.1.1",
                          "::1", "fd00::/8", "fe80::1", "unix:", "localhost", "0.0.0.0/0", "::/0"})
    EXPECT_TRUE(is_trusted_address(own)) << own;
  for (const char* other : {"173.245.48.0/20", "172.64.0.0/13", "172.15.1.1", "2400:cb00::/32"})
    EXPECT_FALSE(is_trusted_address(other)) << other;
}

}  // namespace
}  // namespace corehttpd::server::importer
