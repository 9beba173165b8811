#include "server/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace corehttpd::server {
namespace {

using Action = CommandLine::Action;
using ::testing::HasSubstr;

std::expected<CommandLine, std::string> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "corehttpd");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

CommandLine right(const std::vector<std::string>& words) {
  auto line = parse(words);
  EXPECT_TRUE(line.has_value()) << (line ? "" : line.error());
  return line.value_or(CommandLine());
}

std::string wrong(const std::vector<std::string>& words) {
  auto line = parse(words);
  return line ? "accepted" : line.error();
}

TEST(CommandLine, WithoutOptionsItServesWithTheBuiltInPaths) {
  const CommandLine line = right({});
  EXPECT_EQ(line.action, Action::kServe);
  EXPECT_EQ(line.prefix, kDefaultPrefix);
  EXPECT_EQ(line.path, kDefaultPath);
  EXPECT_EQ(line.error_log, "");
  EXPECT_FALSE(line.quiet);
  EXPECT_FALSE(line.json);
}

TEST(CommandLine, EveryRowIsUnderstoodInEverySpelling) {
  for (const Option& option : options()) {
    const std::string value(option.completes == Completes::kSignal ? "quit" : "/x");
    std::vector<std::vector<std::string>> spellings;
    for (char letter : option.letters) {
      const std::string word = std::string("-") + letter;
      spellings.push_back(option.argument.empty() ? std::vector{word} : std::vector{word, value});
      if (!option.argument.empty()) spellings.push_back({word + value});
    }
    if (!option.name.empty()) {
      const std::string word = "--" + std::string(option.name);
      spellings.push_back(option.argument.empty() ? std::vector{word} : std::vector{word, value});
      if (!option.argument.empty()) spellings.push_back({word + "=" + value});
    }
    for (auto& words : spellings) {
      if (option.flag == &CommandLine::json) words.insert(words.begin(), "-t");
      SCOPED_TRACE(words.back());
      const CommandLine line = right(words);
      if (option.action != Action::kServe) {
        EXPECT_EQ(line.action, option.action);
      }
      if (option.flag != nullptr) {
        EXPECT_TRUE(line.*option.flag);
      }
      if (option.value == &CommandLine::prefix) {
        EXPECT_EQ(line.prefix, "/x/");
      } else if (option.value != nullptr) {
        EXPECT_EQ(line.*option.value, value);
      }
    }
  }
}

TEST(CommandLine, LettersMayShareAWord) {
  const CommandLine line = right({"-tqc/a.conf"});
  EXPECT_EQ(line.action, Action::kTest);
  EXPECT_TRUE(line.quiet);
  EXPECT_EQ(line.path, "/a.conf");
}

TEST(CommandLine, RelativePathsStartAtAPrefixThatWasGiven) {
  const CommandLine line = right({"-p", "/srv", "-c", "a.conf", "-e", "b.log"});
  EXPECT_EQ(line.prefix, "/srv/");
  EXPECT_EQ(line.path, "/srv/a.conf");
  EXPECT_EQ(line.error_log, "/srv/b.log");
  EXPECT_EQ(right({"-p", "/srv", "-e", "stderr"}).error_log, "stderr");
  EXPECT_TRUE(right({"-c", "a.conf"}).path.starts_with('/'));
}

TEST(CommandLine, AnOptionalValueIsNotTheNextOption) {
  EXPECT_EQ(right({"--describe"}).argument, "");
  const CommandLine line = right({"--describe", "-q"});
  EXPECT_EQ(line.argument, "");
  EXPECT_TRUE(line.quiet);
}

TEST(CommandLine, WhatIsWrongIsNamed) {
  EXPECT_EQ(wrong({"-x"}), "invalid option: \"x\"");
  EXPECT_EQ(wrong({"-tx"}), "invalid option: \"x\"");
  EXPECT_EQ(wrong({"word"}), "invalid option: \"word\"");
  EXPECT_EQ(wrong({"-"}), "invalid option: \"-\"");
  EXPECT_EQ(wrong({"--"}), "invalid option: \"--\"");
  EXPECT_EQ(wrong({"--nothing"}), "invalid option: \"--nothing\"");
  EXPECT_EQ(wrong({"--help=x"}), "invalid option: \"--help=x\"");
  EXPECT_EQ(wrong({"-c"}), "option \"-c\" requires a parameter");
  EXPECT_EQ(wrong({"--reference"}), "option \"--reference\" requires a parameter");
  EXPECT_EQ(wrong({"-s", "x"}), "invalid option: \"-s x\"");
  EXPECT_EQ(wrong({"--json"}), "option \"--json\" belongs to \"-t\" or \"--status\"");
}

TEST(CommandLine, SignalsHaveTheirNumbers) {
  EXPECT_EQ(find_signal("stop")->number, SIGTERM);
  EXPECT_EQ(find_signal("quit")->number, SIGQUIT);
  EXPECT_EQ(find_signal("reopen")->number, SIGUSR1);
  EXPECT_EQ(find_signal("reload")->number, SIGHUP);
  EXPECT_EQ(find_signal("upgrade")->number, SIGUSR2);
  EXPECT_EQ(find_signal(""), nullptr);
}

TEST(CommandLine, HelpListsEveryRow) {
  const std::string text = usage();
  for (const Option& option : options()) EXPECT_THAT(text, HasSubstr(spelling(option)));
  for (const Subcommand& command : subcommands()) EXPECT_THAT(text, HasSubstr(command.name));
  EXPECT_THAT(text, HasSubstr("Usage: corehttpd [-?hvVtTq] [-s signal]"));
}

}  // namespace
}  // namespace corehttpd::server
