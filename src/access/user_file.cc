#include "access/user_file.h"

#include <algorithm>

namespace corehttpd::access {

bool UserFileReader::feed(std::string_view piece) {
  while (!piece.empty() && state_ != State::kDone) {
    switch (state_) {
      case State::kName: {
        const char c = piece.front();
        piece.remove_prefix(1);
        if (c == '\n') {
          compared_ = 0;
        } else if (compared_ == 0 && (c == '#' || c == '\r')) {
          state_ = State::kSkip;
        } else if (compared_ == user_.size()) {
          state_ = c == ':' ? State::kHash : State::kSkip;
        } else if (c == user_[compared_]) {
          ++compared_;
        } else {
          state_ = State::kSkip;
        }
        break;
      }
      case State::kSkip: {
        const std::size_t end = piece.find('\n');
        if (end == std::string_view::npos) return false;
        piece.remove_prefix(end + 1);
        state_ = State::kName;
        compared_ = 0;
        break;
      }
      case State::kHash: {
        const std::size_t end = piece.find_first_of(":\r\n");
        const std::string_view part = piece.substr(0, end);
        hash_.append(part.substr(0, kPasswordHashMax - std::min(hash_.size(), kPasswordHashMax)));
        if (end == std::string_view::npos) return false;
        state_ = State::kDone;
        break;
      }
      case State::kDone:
        break;
    }
  }
  return state_ == State::kDone;
}

}  // namespace corehttpd::access
