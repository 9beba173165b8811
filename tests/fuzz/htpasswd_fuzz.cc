// User files: read whole or in pieces they must say the same, and what is said must be a line's.
// Hashes that come out are also compared with, but for the schemes that take long on purpose.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "access/password.h"
#include "access/user_file.h"
#include "corehttpd/base/check.h"

using namespace corehttpd;
using namespace corehttpd::access;

namespace {

struct Outcome {
  bool found;
  std::string hash;
  bool operator==(const Outcome&) const = default;
};

Outcome read(std::string_view text, std::string_view user, std::size_t piece) {
  UserFileReader reader(user);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, piece);
    text.remove_prefix(part.size());
    if (reader.feed(part)) break;
  }
  return {reader.found(), reader.hash()};
}

}  // namespace

// First line: the user; the second the password; the rest is the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto take_line = [&] {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
  const std::string_view user = take_line().substr(0, 64);
  const std::string_view password = take_line();
  if (user.empty() || user.find(':') != std::string_view::npos) return 0;
  const Outcome whole = read(text, user, SIZE_MAX);
  for (std::size_t piece : {1, 2, 5, 64}) CORE_CHECK(read(text, user, piece) == whole);
  if (!whole.found) return 0;
  CORE_CHECK(whole.hash.size() <= kPasswordHashMax);
  CORE_CHECK(whole.hash.find_first_of(":\r\n") == std::string::npos);
  CORE_CHECK(text.find(std::string(user) + ":" + whole.hash) != std::string_view::npos);
  if (scheme_of(whole.hash) != PasswordScheme::kCrypt) verify_password(whole.hash, password);
  return 0;
}
