// Comparing a password with a stored hash, in every scheme that htpasswd files are written in.
#pragma once

#include <cstdint>
#include <string_view>

namespace corehttpd::access {

enum class PasswordScheme : std::uint8_t {
  kPlain,  // {PLAIN}
  kSha,    // {SHA}: base64 of SHA-1.
  kSsha,   // {SSHA}: base64 of SHA-1 and salt.
  kApr1,   // $apr1$: Apache's variant of MD5 crypt.
  kCrypt,  // All that crypt(3) knows: DES, $1$, $2y$, $5$, $6$, $y$, $gy$…
};
PasswordScheme scheme_of(std::string_view hash);
// Whether it takes too long for the loop's thread.
constexpr bool is_slow(PasswordScheme scheme) {
  return scheme == PasswordScheme::kApr1 || scheme == PasswordScheme::kCrypt;
}

// True if password is the one that hash was made of; false also for a hash that nobody knows. Safe
// to be called from any thread. The comparison takes the same time wherever the hashes differ. A
// password with a NUL in it never matches a scheme that would read it only up to there.
bool verify_password(std::string_view hash, std::string_view password);

}  // namespace corehttpd::access
