#include "tls/path_pattern.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>

namespace corehttpd::tls {
namespace {

constexpr std::string_view kVariable = "ssl_server_name";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Splits text at its variables: literals, one more than there are variables. False: something else
// than $ssl_server_name is named; then name says what.
bool split(std::string_view text, std::vector<std::string_view>& literals, std::string_view& name) {
  for (;;) {
    const std::size_t dollar = text.find('$');
    literals.push_back(text.substr(0, dollar));
    if (dollar == std::string_view::npos) return true;
    text.remove_prefix(dollar + 1);
    const bool braces = text.starts_with('{');
    if (braces) text.remove_prefix(1);
    const auto end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_word) -
                                              text.begin());
    name = text.substr(0, end);
    text.remove_prefix(end);
    if (name != kVariable || (braces && !text.starts_with('}'))) return false;
    if (braces) text.remove_prefix(1);
  }
}

// The name for which the component is that entry; empty: there is none.
std::string_view match(const std::vector<std::string_view>& literals, std::string_view entry) {
  const std::size_t count = literals.size() - 1;
  std::size_t fixed = 0;
  for (std::string_view literal : literals) fixed += literal.size();
  if (entry.size() <= fixed || (entry.size() - fixed) % count != 0) return {};
  const std::string_view name =
      entry.substr(literals.front().size(), (entry.size() - fixed) / count);
  std::string whole(literals.front());
  for (std::size_t i = 1; i < literals.size(); ++i) whole.append(name).append(literals[i]);
  return whole == entry ? name : std::string_view();
}

struct Place {
  std::string folder;          // With its slash.
  std::string_view component;  // With the first variable.
};

Place place_of(std::string_view path) {
  const std::size_t dollar = path.find('$');
  const std::size_t begin = path.rfind('/', dollar) + 1;
  return {std::string(path.substr(0, begin)), path.substr(begin, path.find('/', begin) - begin)};
}

}  // namespace

bool is_pattern(std::string_view path) { return path.find('$') != std::string_view::npos; }

std::string check_pattern(std::string_view path) {
  std::vector<std::string_view> literals;
  std::string_view name;
  if (!path.starts_with('/')) return "it must be the path of a file";
  if (split(path, literals, name)) return {};
  return fmt::format("\"${}\" is not known when a certificate is chosen, only \"${}\" is", name,
                     kVariable);
}

std::string expand_pattern(std::string_view path, std::string_view name) {
  std::vector<std::string_view> literals;
  std::string_view unknown;
  if (!split(path, literals, unknown)) return {};
  std::string out(literals.front());
  for (std::size_t i = 1; i < literals.size(); ++i) out.append(name).append(literals[i]);
  return out;
}

bool is_safe_name(std::string_view name) {
  constexpr std::size_t kNameMax = 253;
  return !name.empty() && name.size() <= kNameMax && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                  c == '_';
         });
}

std::vector<std::string> list_names(std::string_view path) {
  std::vector<std::string> out;
  const Place place = place_of(path);
  std::vector<std::string_view> literals;
  std::string_view unknown;
  if (!split(place.component, literals, unknown) || literals.size() < 2) return out;
  DIR* directory = ::opendir(place.folder.c_str());
  if (directory == nullptr) return out;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = match(literals, entry->d_name);
    if (is_safe_name(name) && out.size() < kPatternNamesMax) out.emplace_back(name);
  }
  ::closedir(directory);
  std::sort(out.begin(), out.end());
  return out;
}

std::string pattern_folder(std::string_view path) { return place_of(path).folder; }

}  // namespace corehttpd::tls
