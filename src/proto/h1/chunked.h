// Decoder of the chunked transfer coding (RFC 9112 §7.1), strict and incremental: any split of the
// input gives the same data, the same end and the same refusal. Lines end with CRLF and nothing
// else; extensions and trailers are checked, bounded and dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace corehttpd::h1 {

class ChunkedDecoder {
 public:
  // Of all chunk extensions of a body together: one byte of data per kilobyte of extension would be
  // work without a body.
  static constexpr std::uint32_t kExtensionBytesMax = 16 * 1024;
  // Of the trailer section.
  static constexpr std::uint32_t kTrailerBytesMax = 8 * 1024;

  enum class Event : std::uint8_t {
    kNeedInput,  // Everything was consumed (or data_max was 0 where data follows).
    kData,       // data is a piece of the body; call again.
    kEnd,  // The body and its trailers are complete; what follows consumed is the next request.
    kMalformed,  // Answer 400 and close: where the next request begins is unknown.
  };
  struct Step {
    Event event;
    std::size_t consumed;  // Bytes of input that are done with, data included.
    std::span<const std::byte> data;
  };
  // Reads on. At most data_max bytes of data are taken; framing is read even if it is 0.
  Step next(std::span<const std::byte> input, std::size_t data_max);
  bool ended() const { return state_ == State::kEnded; }

 private:
  enum class State : std::uint8_t {
    kSizeStart,  // The first digit of a chunk's size.
    kSize,       // Further digits, ";" or CR.
    kSizeBlank,  // Bad white space, which only an extension may follow.
    kExtension,  // After ";" up to CR.
    kSizeLf,     // The LF of the size line.
    kData,       // left_ bytes of data.
    kDataCr,     // The CRLF after data.
    kDataLf,
    kTrailerStart,  // A trailer field, or the CR of the last line.
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kEndLf,  // The LF of the last line.
    kEnded,
    kMalformed,
  };
  static State start_trailer(unsigned char c);
  State after_digit(int digit);
  State step(unsigned char c);

  std::uint64_t left_ = 0;  // Of the current chunk; while its size is read, the size so far.
  std::uint32_t extension_bytes_ = 0;
  std::uint32_t trailer_bytes_ = 0;
  std::uint8_t digits_ = 0;
  State state_ = State::kSizeStart;
};

}  // namespace corehttpd::h1
