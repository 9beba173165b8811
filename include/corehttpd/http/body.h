// Bodies: responses are pulled by the transport, requests are pushed by it. See design §4 and
// docs/flow_control.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "corehttpd/base/error.h"
#include "corehttpd/base/segment.h"

namespace corehttpd::http {

class FieldList;

enum class Next : std::uint8_t {
  kMore,     // Call read() again when there is room.
  kBlocked,  // Nothing now; Transport::body_ready() will be called.
  kEnd,      // These segments (possibly none) were the last.
};
struct ReadOutcome {
  std::uint32_t segments = 0;  // How many of out were filled.
  Next next = Next::kEnd;
};
enum class Forms : std::uint8_t {
  kMemory,  // Memory segments only (h2, h3, TLS, transforms).
  kFiles,   // File segments as well (plain h1).
};

// Pulled by a transport that has room, or by a transform that decorates it; never called
// re-entrantly, never after kEnd, an error or cancel(). Lives in the exchange's arena (or owns
// itself) and stays valid until the exchange is destroyed.
class BodySource {
 public:
  // Moves segments into out, together at most bytes_max bytes (bytes_max > 0, out not empty).
  virtual Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max, Forms forms) = 0;
  // From now on read() yields the bytes [begin, end) of the whole representation and then kEnd,
  // whatever was read or restricted before: also after kEnd, so that several ranges can be read one
  // after the other. begin <= end <= its length. False, with nothing changed, from a source that
  // can't seek. Decorators that change bytes or their number don't offer it.
  virtual bool restrict(std::uint64_t begin, std::uint64_t end) {
    (void)begin;
    (void)end;
    return false;
  }
  // Nobody will read any more. Idempotent. Decorators pass it on.
  virtual void cancel() noexcept {}
  // After kEnd: trailer fields, or nullptr.
  virtual const FieldList* trailers() { return nullptr; }
  virtual ~BodySource() = default;
};

// Receives a request body. Bytes are valid during the call only.
class BodySink {
 public:
  // last: the body is complete with these (possibly no) bytes.
  virtual void on_data(std::span<const std::byte> bytes, bool last) = 0;
  // The body broke off (client gone, malformed chunk, too large); no further calls. error.detail
  // may hold the status to answer.
  virtual void on_error(const Error& error) = 0;

 protected:
  ~BodySink() = default;
};

}  // namespace corehttpd::http
