// What an origin protocol (FastCGI, SCGI, uwsgi, HTTP) adds to the gateway: how a request is put
// into bytes and how the origin's bytes are taken apart. Everything else (peers, timeouts, retries,
// the spool, logs) is the gateway's and written once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "corehttpd/base/block.h"
#include "corehttpd/base/segment.h"

namespace corehttpd::http {
class Exchange;
}

namespace corehttpd::upstream {

// What the bytes of an origin mean. Views point into the input given to OriginCodec::next().
struct OriginEvent {
  enum class Kind : std::uint8_t {
    kNeedMore,     // The input is used up.
    kOutput,       // Bytes of the response: head, then body.
    kOutputEnd,    // The origin closed its output; the end of the response is still to come.
    kDiagnostics,  // Bytes of the origin's error stream; last tells where a message ends.
    kEnd,          // The response is complete.
    kMalformed,    // The origin broke its protocol; describe_problem() says how.
  };
  Kind kind = Kind::kNeedMore;
  bool last = false;
  std::span<const std::byte> bytes;
};

// One attempt at one origin. Trivially destructible, so that the gateway can keep it in place.
class OriginCodec {
 public:
  // Takes the next event from the front of input. Call until kNeedMore, kEnd or kMalformed; nothing
  // may follow the latter two.
  virtual OriginEvent next(std::span<const std::byte>& input) = 0;
  // True if the origin may end its response by closing the connection.
  virtual bool close_is_end() const = 0;
  // After kEnd: the response has ended in such a way that nothing more of it can come, so that the
  // connection may carry another request.
  virtual bool reusable() const { return false; }
  // In nginx's words, for a log line that starts with "upstream sent": "unexpected FastCGI record:
  // 9". Only after kMalformed.
  virtual std::string describe_problem() const = 0;

  // The most body bytes that one frame carries.
  virtual std::size_t frame_max() const = 0;
  // Writes what precedes length bytes (1 … frame_max()) of the request's body; returns how many
  // bytes, at most kFrameBytesMax.
  static constexpr std::size_t kFrameBytesMax = 24;
  virtual std::size_t begin_frame(std::byte* out, std::size_t length) = 0;
  // What follows the last byte of the body.
  virtual std::size_t end_body(std::byte* out) = 0;
  // What says that nobody waits for the answer any more, at most kFrameBytesMax bytes; 0: the
  // protocol has no words for that.
  virtual std::size_t abort(std::byte*) { return 0; }

 protected:
  ~OriginCodec() = default;
};

// Stateless, one per protocol, made by the handler module that has its settings.
class OriginProtocol {
 public:
  // For logs: "fastcgi" of "fastcgi://unix:/run/php.sock:".
  virtual std::string_view scheme() const = 0;
  // Who speaks on the error stream, for logs: "FastCGI".
  virtual std::string_view title() const = 0;
  // Whether a request cannot begin before the length of its body is known.
  virtual bool needs_body_length() const { return false; }
  // Whether a response may begin with a status line as HTTP has it.
  virtual bool has_status_line() const { return false; }
  // The request up to its body, for this exchange, whose body is complete or of known length. body:
  // the bytes of body that will follow. keep: the origin is asked to leave the connection open. The
  // result does not point into the exchange; an empty one: it is too long for the protocol.
  virtual Segment encode_head(http::Exchange& exchange, std::uint64_t body_bytes,
                              bool keep) const = 0;
  // Makes a codec in storage.
  static constexpr std::size_t kCodecBytes = 128;
  virtual OriginCodec* make_codec(std::byte* storage) const = 0;

 protected:
  ~OriginProtocol() = default;
};

}  // namespace corehttpd::upstream
