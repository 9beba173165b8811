// FastCGI 1.0 as its client speaks it: records, name-value pairs, and the codec for the gateway.
// One request per connection at a time (no origin in use multiplexes), so the request's ID is
// always 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/segment.h"
#include "corehttpd/upstream/codec.h"

namespace corehttpd::upstream::fastcgi {

// FastCGI 1.0 §8.
enum class RecordType : std::uint8_t {
  kBeginRequest = 1,
  kAbortRequest = 2,
  kEndRequest = 3,
  kParams = 4,
  kStdin = 5,
  kStdout = 6,
  kStderr = 7,
};
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::uint16_t kRequestId = 1;
inline constexpr std::size_t kHeaderBytes = 8;
// The most content we put into one record: the largest multiple of 8 that its 16-bit length holds,
// so that full records stay aligned and we never need padding. (Padding is a courtesy to receivers
// that parse in place; php-fpm copies, and each padding would cost a vector of the gathered send.)
inline constexpr std::size_t kContentMax = 65528;

struct Param {
  std::string_view name;
  std::string_view value;
};

// Writes the 8 bytes of a record's header (§3.3) without padding. length <= 65535.
void write_header(std::byte* out, RecordType type, std::size_t length);
// Bytes of the pairs as PARAMS content: lengths of one byte below 128, else of four (§3.4).
std::size_t params_bytes(std::span<const Param> params);
// BEGIN_REQUEST for a responder, the PARAMS stream cut into as many records as it takes, its empty
// end record. keep_connection asks the application to leave the connection open.
Segment encode_head(std::span<const Param> params, bool keep_connection);

// Takes apart what an application sends. Strict: what is not a record of our request is an error.
class Codec final : public OriginCodec {
 public:
  OriginEvent next(std::span<const std::byte>& input) override;
  bool close_is_end() const override { return false; }
  std::string describe_problem() const override;
  std::size_t frame_max() const override { return kContentMax; }
  std::size_t begin_frame(std::byte* out, std::size_t length) override;
  std::size_t end_body(std::byte* out) override;
  std::size_t abort(std::byte* out) override;

  // After kEnd: the application's exit status (what CGI programs return).
  std::uint32_t application_status() const { return application_status_; }
  // True when END_REQUEST has come with all its padding and nothing after it: only then may the
  // connection carry another request (replies are never mixed).
  bool reusable() const override { return state_ == State::kEnded; }

 private:
  enum class State : std::uint8_t {
    kHeader,   // Collecting the 8 bytes of a record's header.
    kContent,  // content_left_ bytes of the record's content are still to come.
    kPadding,  // Its padding is being skipped.
    kEnded,    // END_REQUEST was seen: nothing may follow.
    kBroken,   // The protocol was broken; problem_ says how.
  };
  enum class Problem : std::uint8_t {
    kNone,
    kVersion,
    kRequestId,
    kType,
    kEndLength,
    kProtocolStatus,
    kAfterEnd,
    kAfterOutputEnd,
  };
  OriginEvent fail(Problem problem, unsigned detail);
  OriginEvent on_header();
  OriginEvent take_content(std::span<const std::byte>& input);
  OriginEvent on_end_request();
  void content_done();

  std::array<std::byte, kHeaderBytes> header_{};  // Also collects the content of END_REQUEST.
  State state_ = State::kHeader;
  RecordType type_{};
  Problem problem_ = Problem::kNone;
  bool output_ended_ = false;
  std::uint8_t padding_left_ = 0;
  std::uint16_t content_left_ = 0;
  std::uint8_t header_bytes_ = 0;
  std::uint32_t application_status_ = 0;
  unsigned detail_ = 0;
};
static_assert(sizeof(Codec) <= OriginProtocol::kCodecBytes);

}  // namespace corehttpd::upstream::fastcgi
