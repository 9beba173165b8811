// Finding a user in a file of the htpasswd kind: a line per user, "name:hash" or
// "name:hash:comment"; lines that begin with "#" are comments. The first line of a name counts, as
// in nginx.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace corehttpd::access {

// A longer one is no hash of any scheme.
inline constexpr std::size_t kPasswordHashMax = 4096;

// Reads a file in pieces.
class UserFileReader {
 public:
  // user: not empty, without colon; must outlive the reader.
  explicit UserFileReader(std::string_view user) : user_(user) {}
  // True when nothing more is needed.
  bool feed(std::string_view piece);
  // After the last piece, or as soon as feed() was true.
  bool found() const { return state_ == State::kHash || state_ == State::kDone; }
  const std::string& hash() const { return hash_; }

 private:
  enum class State : std::uint8_t {
    kName,  // Comparing a line's name with the user.
    kSkip,  // Another user's line, or a comment.
    kHash,
    kDone,
  };
  State state_ = State::kName;
  std::string_view user_;
  std::size_t compared_ = 0;  // Bytes of this line's name.
  std::string hash_;
};

}  // namespace corehttpd::access
