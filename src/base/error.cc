#include "corehttpd/base/error.h"

#include <cerrno>

namespace corehttpd {

Error error_from_errno(int errno_value, const char* context) {
  Code code = Code::kSystem;
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      code = Code::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case ELOOP:
      code = Code::kForbidden;
      break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
      code = Code::kUnavailable;
      break;
    case ECONNRESET:
    case EPIPE:
      code = Code::kReset;
      break;
    case ETIMEDOUT:
      code = Code::kTimeout;
      break;
    case ECANCELED:
      code = Code::kCancelled;
      break;
    default:
      break;
  }
  return Error{code, Party::kSelf, errno_value, context};
}

const char* to_string(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kSystem:
      return "system error";
    case Code::kClosed:
      return "closed";
    case Code::kReset:
      return "reset";
    case Code::kTimeout:
      return "timed out";
    case Code::kMalformed:
      return "malformed";
    case Code::kTooLarge:
      return "too large";
    case Code::kNotFound:
      return "not found";
    case Code::kForbidden:
      return "forbidden";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

}  // namespace corehttpd
