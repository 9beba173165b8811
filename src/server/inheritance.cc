#include "server/inheritance.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstdlib>

#include "corehttpd/base/text.h"

namespace corehttpd::server {
namespace {

constexpr std::string_view kVersion = "v1";

// The next word of a list; false at its end.
bool next_word(std::string_view& rest, std::string_view& word) {
  if (rest.empty()) return false;
  const std::size_t end = rest.find(';');
  word = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return true;
}

bool read_descriptor(std::string_view text, int& out) {
  const auto value = text::parse_decimal(text);
  if (!value || *value > 1'000'000) return false;
  out = static_cast<int>(*value);
  return true;
}

bool read_elder(std::string_view text, Elder& out) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto generations = text::parse_decimal(text.substr(colon + 1));
  if (!generations || *generations > 100) return false;
  out.generations = static_cast<std::uint32_t>(*generations);
  return read_descriptor(text.substr(0, colon), out.pidfd);
}

bool read_word(std::string_view word, Inheritance& out) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return true;
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (key == "listen") return read_descriptor(value, out.listeners.emplace_back());
  if (key == "elder") return read_elder(value, out.elders.emplace_back());
  if (key == "counters") return read_descriptor(value, out.counters);
  if (key == "tickets") return read_descriptor(value, out.tickets);
  if (key == "sessions") return read_descriptor(value, out.sessions.emplace_back());
  if (key == "ready") return read_descriptor(value, out.ready);
  if (key != "generation") return true;
  const auto number = text::parse_decimal(value);
  out.generation = number.value_or(0);
  return number.has_value();
}

bool keep(int fd) { return fd > 2 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0; }

}  // namespace

std::string encode(const Inheritance& inheritance) {
  std::string text = fmt::format("{};generation={}", kVersion, inheritance.generation);
  for (int fd : inheritance.listeners) text += fmt::format(";listen={}", fd);
  for (const Elder& elder : inheritance.elders)
    text += fmt::format(";elder={}:{}", elder.pidfd, elder.generations);
  if (inheritance.counters >= 0) text += fmt::format(";counters={}", inheritance.counters);
  if (inheritance.tickets >= 0) text += fmt::format(";tickets={}", inheritance.tickets);
  for (int fd : inheritance.sessions) text += fmt::format(";sessions={}", fd);
  if (inheritance.ready >= 0) text += fmt::format(";ready={}", inheritance.ready);
  return text;
}

std::optional<Inheritance> decode(std::string_view text) {
  std::string_view word;
  if (!next_word(text, word) || word != kVersion) return std::nullopt;
  Inheritance out;
  while (next_word(text, word)) {
    if (!read_word(word, out)) return std::nullopt;
  }
  return out;
}

std::optional<Inheritance> take_inheritance() {
  const char* text = std::getenv(kInheritanceVariable);
  if (text == nullptr) return std::nullopt;
  auto out = decode(text);
  ::unsetenv(kInheritanceVariable);
  if (!out) return out;
  std::erase_if(out->listeners, [](int fd) { return !keep(fd); });
  std::erase_if(out->sessions, [](int fd) { return !keep(fd); });
  std::erase_if(out->elders, [](const Elder& elder) { return !keep(elder.pidfd); });
  if (!keep(out->counters)) out->counters = -1;
  if (!keep(out->tickets)) out->tickets = -1;
  if (!keep(out->ready)) out->ready = -1;
  return out;
}

std::vector<int> descriptors(const Inheritance& inheritance) {
  std::vector<int> fds = inheritance.listeners;
  fds.insert(fds.end(), inheritance.sessions.begin(), inheritance.sessions.end());
  for (const Elder& elder : inheritance.elders) fds.push_back(elder.pidfd);
  for (int fd : {inheritance.counters, inheritance.tickets, inheritance.ready}) {
    if (fd >= 0) fds.push_back(fd);
  }
  return fds;
}

}  // namespace corehttpd::server
