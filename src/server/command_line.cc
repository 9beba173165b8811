#include "server/command_line.h"

#include <unistd.h>

#include <climits>

namespace corehttpd::server {
namespace {

std::string absolute(std::string_view path) {
  if (!path.empty() && path.front() == '/') return std::string(path);
  char directory[PATH_MAX];
  if (::getcwd(directory, sizeof(directory)) == nullptr) return std::string(path);
  return std::string(directory) + "/" + std::string(path);
}

std::string invalid(std::string_view option) {
  return "invalid option: \"" + std::string(option) + "\"";
}

// Reads words of the command line into a CommandLine; messages are what main() prints.
class Parser {
 public:
  Parser(int argc, char** argv) : argc_(argc), argv_(argv) {}

  std::expected<CommandLine, std::string> run() {
    while (next_ < argc_) {
      const std::string_view word = argv_[next_++];
      std::string message = word.starts_with("--") ? read_name(word) : read_letters(word);
      if (!message.empty()) return std::unexpected(std::move(message));
    }
    using Action = CommandLine::Action;
    if (out_.json && out_.action != Action::kTest && out_.action != Action::kStatus) {
      return std::unexpected("option \"--json\" belongs to \"-t\" or \"--status\"");
    }
    return out_;
  }

 private:
  // "--name", "--name value", "--name=value".
  std::string read_name(std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(2, equals == word.npos ? equals : equals - 2);
    for (const Option& option : options()) {
      if (name.empty() || option.name != name) continue;
      if (equals == word.npos) return apply(option, word, nullptr);
      if (option.argument.empty()) break;
      return apply(option, word.substr(0, equals), word.data() + equals + 1);
    }
    return invalid(word);
  }

  // One word of option letters: "-tq", "-c", "-p/x". What follows a letter that takes a value is
  // that value.
  std::string read_letters(std::string_view word) {
    if (word.size() < 2 || word.front() != '-') return invalid(word);
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Option* option = find_letter(word[i]);
      const std::string_view letter = word.substr(i, 1);
      if (option == nullptr) return invalid(letter);
      const bool takes_value = !option->argument.empty();
      const char* rest = takes_value && i + 1 < word.size() ? word.data() + i + 1 : nullptr;
      std::string message = apply(*option, "-" + std::string(letter), rest);
      if (!message.empty() || takes_value) return message;
    }
    return {};
  }

  static const Option* find_letter(char letter) {
    for (const Option& option : options()) {
      if (option.letters.find(letter) != std::string_view::npos) return &option;
    }
    return nullptr;
  }

  // written: the option as it stands there. value: what is joined to it; nullptr: nothing is.
  std::string apply(const Option& option, std::string_view written, const char* value) {
    if (option.action != CommandLine::Action::kServe) out_.action = option.action;
    if (option.flag != nullptr) out_.*option.flag = true;
    if (option.argument.empty()) return {};
    if (value == nullptr && next_ < argc_ && !(option.optional && *argv_[next_] == '-')) {
      value = argv_[next_++];
    }
    if (value == nullptr) {
      if (option.optional) return {};
      return "option \"" + std::string(written) + "\" requires a parameter";
    }
    out_.*option.value = value;
    if (option.action == CommandLine::Action::kSignal && find_signal(value) == nullptr) {
      return invalid("-s " + std::string(value));
    }
    return {};
  }

  int argc_;
  char** argv_;
  int next_ = 1;
  CommandLine out_;
};

// A relative -c is taken from the prefix, as nginx does; without -p that means where we were
// started.
void resolve_paths(CommandLine& line) {
  const bool own_prefix = !line.prefix.empty();
  line.prefix = own_prefix ? absolute(line.prefix) : kDefaultPrefix;
  if (line.prefix.back() != '/') line.prefix.push_back('/');
  const auto from_prefix = [&](const std::string& path) {
    return own_prefix && path.front() != '/' ? line.prefix + path : absolute(path);
  };
  line.path = line.path.empty() ? kDefaultPath : from_prefix(line.path);
  if (!line.error_log.empty() && line.error_log != "stderr") {
    line.error_log = from_prefix(line.error_log);
  }
}

}  // namespace

std::expected<CommandLine, std::string> parse_command_line(int argc, char** argv) {
  auto line = Parser(argc, argv).run();
  if (line) resolve_paths(*line);
  return line;
}

}  // namespace corehttpd::server
