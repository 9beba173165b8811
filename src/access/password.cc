#include "access/password.h"

#include <crypt.h>
#include <md5.h>
#include <sha1.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "corehttpd/base/base64.h"

namespace corehttpd::access {
namespace {

constexpr std::string_view kPlain = "{PLAIN}";
constexpr std::string_view kSha = "{SHA}";
constexpr std::string_view kSsha = "{SSHA}";
constexpr std::string_view kApr1 = "$apr1$";

// Longer ones would make a request's cost depend on what the client sends; crypt(3) has the same
// limit.
constexpr std::size_t kHashedPasswordMax = CRYPT_MAX_PASSPHRASE_SIZE;

// The lengths are no secret: they follow from the scheme, or, of {PLAIN}, cost the length.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = difference | static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^
                                                    static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

class Md5 {
 public:
  Md5() { MD5Init(&context_); }
  Md5& add(std::string_view text) {
    MD5Update(&context_, bytes_of(text), text.size());
    return *this;
  }
  std::string_view finish() {
    MD5Final(digest_, &context_);
    return {reinterpret_cast<const char*>(digest_), sizeof(digest_)};
  }

 private:
  MD5_CTX context_;
  std::uint8_t digest_[MD5_DIGEST_LENGTH];
};

std::string sha1(std::string_view text, std::string_view salt) {
  SHA1_CTX context;
  std::uint8_t digest[SHA1_DIGEST_LENGTH];
  SHA1Init(&context);
  SHA1Update(&context, bytes_of(text), text.size());
  SHA1Update(&context, bytes_of(salt), salt.size());
  SHA1Final(digest, &context);
  return {reinterpret_cast<const char*>(digest), sizeof(digest)};
}

bool verify_sha(std::string_view stored, std::string_view password) {
  const auto digest = decode_base64(stored);
  return digest && equal_in_constant_time(*digest, sha1(password, {}));
}

bool verify_ssha(std::string_view stored, std::string_view password) {
  const auto decoded = decode_base64(stored);
  if (!decoded || decoded->size() < SHA1_DIGEST_LENGTH) return false;
  const std::string_view digest = std::string_view(*decoded).substr(0, SHA1_DIGEST_LENGTH);
  const std::string_view salt = std::string_view(*decoded).substr(SHA1_DIGEST_LENGTH);
  return equal_in_constant_time(digest, sha1(password, salt));
}

// MD5 crypt's own order of bytes and base 64.
std::string apr1_text(std::string_view digest) {
  constexpr char kAlphabet[] = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kOrder[][3] = {{0, 6, 12}, {1, 7, 13}, {2, 8, 14}, {3, 9, 15}, {4, 10, 5}};
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(digest[i]));
  };
  std::string text;
  const auto append = [&](std::uint32_t value, int count) {
    for (; count > 0; --count, value >>= 6) text.push_back(kAlphabet[value & 63]);
  };
  for (const auto& [high, middle, low] : kOrder)
    append(byte(high) << 16 | byte(middle) << 8 | byte(low), 4);
  append(byte(11), 2);
  return text;
}

// MD5 crypt with another magic string.
std::string apr1(std::string_view password, std::string_view salt) {
  Md5 inner;
  std::string mix(inner.add(password).add(salt).add(password).finish());
  Md5 outer;
  outer.add(password).add(kApr1).add(salt);
  for (std::size_t left = password.size(); left > 0; left -= std::min<std::size_t>(left, 16))
    outer.add(std::string_view(mix).substr(0, std::min<std::size_t>(left, 16)));
  constexpr char kZero = '\0';
  for (std::size_t bits = password.size(); bits != 0; bits >>= 1)
    outer.add((bits & 1) != 0 ? std::string_view(&kZero, 1) : password.substr(0, 1));
  mix = outer.finish();
  for (unsigned round = 0; round < 1000; ++round) {
    Md5 hash;
    hash.add((round & 1) != 0 ? password : std::string_view(mix));
    if (round % 3 != 0) hash.add(salt);
    if (round % 7 != 0) hash.add(password);
    hash.add((round & 1) != 0 ? std::string_view(mix) : password);
    mix = hash.finish();
  }
  return apr1_text(mix);
}

bool verify_apr1(std::string_view stored, std::string_view password) {
  const std::size_t dollar = stored.find('$');
  if (dollar == std::string_view::npos || password.size() > kHashedPasswordMax) return false;
  const std::string_view salt = stored.substr(0, std::min<std::size_t>(dollar, 8));
  return equal_in_constant_time(apr1(password, salt), stored.substr(dollar + 1));
}

bool verify_crypt(std::string_view hash, std::string_view password) {
  if (hash.empty() || hash.size() >= CRYPT_OUTPUT_SIZE || password.size() > kHashedPasswordMax ||
      password.find('\0') != std::string_view::npos || hash.find('\0') != std::string_view::npos)
    return false;
  const auto data = std::make_unique<crypt_data>();  // 32 KiB.
  const std::string phrase(password), setting(hash);
  const char* const made = crypt_r(phrase.c_str(), setting.c_str(), data.get());
  // A setting that nobody knows yields "*0" or "*1", whichever is not the setting.
  const bool same = made != nullptr && made[0] != '*' && equal_in_constant_time(made, hash);
  explicit_bzero(data.get(), sizeof(*data));
  return same;
}

}  // namespace

PasswordScheme scheme_of(std::string_view hash) {
  if (hash.starts_with(kPlain)) return PasswordScheme::kPlain;
  if (hash.starts_with(kSha)) return PasswordScheme::kSha;
  if (hash.starts_with(kSsha)) return PasswordScheme::kSsha;
  if (hash.starts_with(kApr1)) return PasswordScheme::kApr1;
  return PasswordScheme::kCrypt;
}

bool verify_password(std::string_view hash, std::string_view password) {
  switch (scheme_of(hash)) {
    case PasswordScheme::kPlain:
      return equal_in_constant_time(hash.substr(kPlain.size()), password);
    case PasswordScheme::kSha:
      return verify_sha(hash.substr(kSha.size()), password);
    case PasswordScheme::kSsha:
      return verify_ssha(hash.substr(kSsha.size()), password);
    case PasswordScheme::kApr1:
      return verify_apr1(hash.substr(kApr1.size()), password);
    case PasswordScheme::kCrypt:
      break;
  }
  return verify_crypt(hash, password);
}

}  // namespace corehttpd::access
