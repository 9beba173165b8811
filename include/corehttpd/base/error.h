// Errors as values (design: no exceptions). An Error is 16 bytes, copies freely and owns nothing:
// its context is a string literal. One switch per protocol maps it to a status, a close or a reset.
#pragma once

#include <cstdint>
#include <expected>
#include <utility>

namespace corehttpd {

// Who is to blame decides status and log level: self is 500, client is 4xx, origin is 502/504.
enum class Party : std::uint8_t { kSelf, kClient, kOrigin };

enum class Code : std::uint8_t {
  kOk,
  kSystem,       // A system call failed; detail is its errno.
  kClosed,       // The peer closed in an orderly way.
  kReset,        // The peer reset, or vanished.
  kTimeout,      // A directive's time ran out.
  kMalformed,    // Bytes that break the protocol; detail is the HTTP status to answer, 0 if none.
  kTooLarge,     // A limit was exceeded; detail as for kMalformed.
  kNotFound,     // ENOENT, ENOTDIR, ENAMETOOLONG.
  kForbidden,    // EACCES and refusals by configuration.
  kUnavailable,  // Out of a budgeted resource (memory, descriptors, connections).
  kCancelled,    // Withdrawn by ourselves, e.g. the client went away.
  kInternal,     // Should not happen; logged at alert.
};

struct Error {
  Code code = Code::kInternal;
  Party party = Party::kSelf;
  std::int32_t detail = 0;
  const char* context =
      "";  // A literal that says what was being done: "open()", "reading request head".

  friend bool operator==(const Error&, const Error&) = default;
};
static_assert(sizeof(Error) == 16);

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Code code, const char* context, std::int32_t detail = 0,
                                   Party party = Party::kSelf) {
  return std::unexpected(Error{code, party, detail, context});
}

// An Error from an errno value. ENOENT, ENOTDIR and ENAMETOOLONG become kNotFound; EACCES, EPERM
// and ELOOP kForbidden; EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC kUnavailable; ECONNRESET and EPIPE
// kReset; the rest kSystem.
Error error_from_errno(int errno_value, const char* context);
// The text of a code, for logs: "not found", "timed out".
const char* to_string(Code code);

}  // namespace corehttpd

// Returns the error of a Result to our own caller, or yields its value.
#define CORE_TRY(expression)                                               \
  __extension__({                                                          \
    auto core_try_result = (expression);                                   \
    if (!core_try_result) return std::unexpected(core_try_result.error()); \
    *std::move(core_try_result);                                           \
  })
#define CORE_TRY_VOID(expression)                                          \
  do {                                                                     \
    auto core_try_result = (expression);                                   \
    if (!core_try_result) return std::unexpected(core_try_result.error()); \
  } while (0)
