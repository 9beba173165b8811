#include "access/password.h"

#include <crypt.h>
#include <gtest/gtest.h>

#include <string>

#include "access/user_file.h"

namespace corehttpd::access {
namespace {

TEST(Password, Apr1) {
  // Made by openssl passwd -apr1.
  EXPECT_TRUE(verify_password("$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/", "secret"));
  EXPECT_TRUE(verify_password("$apr1$abcdefgh$L.PT565ESX4Tp2bqNs7Ie.", ""));
  EXPECT_TRUE(verify_password("$apr1$abcdefgh$Eqv4oIyMsS.tjfvQCJYY1/",
                              "a much longer password than sixteen bytes"));
  EXPECT_TRUE(verify_password("$apr1$ab$jiiV6N7hIIuIoJbc1hxOE/", "secret"));
  for (std::string_view wrong : {"Secret", "secret ", "", "secre"}) {
    EXPECT_FALSE(verify_password("$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/", wrong)) << wrong;
  }
  EXPECT_FALSE(verify_password("$apr1$abcdefgh", "secret"));
  EXPECT_FALSE(verify_password("$apr1$", ""));
  EXPECT_FALSE(verify_password("$apr1$abcdefgh$", ""));
}

TEST(Password, EverySchemeOfTheLibrary) {
  for (const char* prefix : {"", "$1$", "$5$", "$6$", "$2b$", "$2y$", "$y$", "$gy$"}) {
    // The cheapest that each allows; the traditional one takes its salt as it is.
    std::string setting = "ab";
    if (prefix[0] != '\0') {
      const char* const made =
          crypt_gensalt(prefix, prefix[1] == '2' ? 4 : 1, "0123456789abcdef0123456789abcdef", 32);
      const char* const usual =
          made != nullptr ? made : crypt_gensalt(prefix, 0, "0123456789abcdef0123456789abcdef", 32);
      ASSERT_NE(usual, nullptr) << prefix;
      setting = usual;
    }
    const std::string hash = crypt("secret", setting.c_str());
    ASSERT_NE(hash[0], '*') << prefix;
    EXPECT_EQ(scheme_of(hash), PasswordScheme::kCrypt);
    EXPECT_TRUE(verify_password(hash, "secret")) << hash;
    EXPECT_FALSE(verify_password(hash, "Secret")) << hash;
    EXPECT_FALSE(verify_password(hash, std::string_view("secret\0x", 8))) << hash;
    EXPECT_FALSE(verify_password(hash.substr(0, hash.size() - 1), "secret")) << hash;
  }
}

TEST(Password, ShaAndPlain) {
  EXPECT_TRUE(verify_password("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret"));
  EXPECT_FALSE(verify_password("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret2"));
  EXPECT_FALSE(verify_password("{SHA}", ""));
  EXPECT_FALSE(verify_password("{SHA}5en6G6Me", "secret"));
  // SHA-1 of "secret" and the salt "salt".
  EXPECT_TRUE(verify_password("{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0", "secret"));
  EXPECT_FALSE(verify_password("{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx1", "secret"));
  EXPECT_FALSE(verify_password("{SSHA}AAAA", "secret"));
  EXPECT_FALSE(verify_password("{SSHA}!", "secret"));
  EXPECT_TRUE(verify_password("{PLAIN}secret", "secret"));
  EXPECT_TRUE(verify_password("{PLAIN}", ""));
  EXPECT_FALSE(verify_password("{PLAIN}secret", "secretx"));
}

TEST(Password, WhatNobodyKnowsMatchesNothing) {
  for (std::string_view hash : {"", "*", "*0", "*1", "!", "x", "$", "$9$abc$def", "secret",
                                "{MD5}x", "$6$", "$2y$99$abcdefghijklmnopqrstuv"}) {
    for (std::string_view password : {"", "secret", "*0", "*1", "x"}) {
      EXPECT_FALSE(verify_password(hash, password)) << hash << " " << password;
    }
  }
  EXPECT_FALSE(verify_password(std::string(5000, '$'), "x"));
  EXPECT_FALSE(verify_password("$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/", std::string(5000, 'x')));
}

struct Found {
  bool found;
  std::string hash;
};
Found find(std::string_view text, std::string_view user, std::size_t piece = SIZE_MAX) {
  UserFileReader reader(user);
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at)) {
    if (reader.feed(text.substr(at, piece))) break;
  }
  return {reader.found(), reader.hash()};
}

TEST(UserFile, Lines) {
  constexpr std::string_view kFile =
      "# joe:comment\n\nann:{PLAIN}a:a comment:and more\r\njoe:first\njoe:second\r\n#x\nlast:end";
  for (std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, SIZE_MAX}) {
    EXPECT_EQ(find(kFile, "ann", piece).hash, "{PLAIN}a");
    EXPECT_EQ(find(kFile, "joe", piece).hash, "first");
    EXPECT_EQ(find(kFile, "last", piece).hash, "end");
    for (std::string_view user : {"jo", "joey", "# joe", "#x", "{PLAIN}a", "and more", "las", "x"})
      EXPECT_FALSE(find(kFile, user, piece).found) << user;
  }
}

TEST(UserFile, Edges) {
  EXPECT_FALSE(find("", "joe").found);
  EXPECT_FALSE(find("joe", "joe").found);
  EXPECT_TRUE(find("joe:", "joe").found);
  EXPECT_EQ(find("joe:", "joe").hash, "");
  EXPECT_EQ(find("joe:\nx", "joe").hash, "");
  EXPECT_FALSE(find("joe\njim:x", "joe").found);
  EXPECT_EQ(find("jo\njoe:x", "joe").hash, "x");
  EXPECT_FALSE(find("joe\r\n:x", "joe").found);
  EXPECT_EQ(find("joe:" + std::string(100'000, 'a'), "joe", 1000).hash.size(), kPasswordHashMax);
}

}  // namespace
}  // namespace corehttpd::access
