// Paths of certificates with variables in them. Workers never open such files: the master reads all
// that the pattern can lead to, and a handshake picks one of those by the name that was asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace corehttpd::tls {

// Has it a "$"?
bool is_pattern(std::string_view path);
// Why the pattern cannot be used; empty: it can. Only $ssl_server_name is known when a certificate
// is chosen, and it stands within names of files and folders.
std::string check_pattern(std::string_view path);
// The path for that name.
std::string expand_pattern(std::string_view path, std::string_view name);
// Could it be asked for, and be part of a file's name? Lower case, no "/", not beginning with a
// dot.
bool is_safe_name(std::string_view name);
// The names for which there is a file or folder where the pattern's first variable stands; sorted,
// at most kPatternNamesMax.
constexpr std::size_t kPatternNamesMax = 10'000;
std::vector<std::string> list_names(std::string_view path);
// The folder in which it stands.
std::string pattern_folder(std::string_view path);

}  // namespace corehttpd::tls
