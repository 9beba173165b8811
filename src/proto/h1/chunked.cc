#include "proto/h1/chunked.h"

#include <algorithm>

#include "corehttpd/base/text.h"
#include "proto/h1/byte_scan.h"

namespace corehttpd::h1 {

namespace {
// 15 hex digits keep any size within the signed 64-bit range; leading zeros beyond that are nothing
// an honest client sends.
constexpr std::uint8_t kDigitsMax = 15;
}  // namespace

ChunkedDecoder::State ChunkedDecoder::after_digit(int digit) {
  if (digit < 0 || ++digits_ > kDigitsMax) return State::kMalformed;
  left_ = left_ << 4 | static_cast<std::uint64_t>(digit);
  return State::kSize;
}

ChunkedDecoder::State ChunkedDecoder::start_trailer(unsigned char c) {
  if (c == '\r') return State::kEndLf;
  return is_token_byte(static_cast<char>(c)) ? State::kTrailerName : State::kMalformed;
}

// One byte of framing; never called in kData, kEnded or kMalformed.
ChunkedDecoder::State ChunkedDecoder::step(unsigned char c) {
  switch (state_) {
    case State::kSizeStart:
      left_ = 0;
      digits_ = 0;
      return after_digit(text::hex_value(static_cast<char>(c)));
    case State::kSize:
      if (c == '\r') return State::kSizeLf;
      if (c == ';') return State::kExtension;
      if (c == ' ' || c == '\t') return State::kSizeBlank;
      return after_digit(text::hex_value(static_cast<char>(c)));
    case State::kSizeBlank:
      if (c == ';') return State::kExtension;
      return (c == ' ' || c == '\t') && ++extension_bytes_ <= kExtensionBytesMax
                 ? State::kSizeBlank
                 : State::kMalformed;
    case State::kExtension:
      if (c == '\r') return State::kSizeLf;
      if (detail::is_field_stop(c) || ++extension_bytes_ > kExtensionBytesMax)
        return State::kMalformed;
      return State::kExtension;
    case State::kSizeLf:
      if (c != '\n') return State::kMalformed;
      return left_ == 0 ? State::kTrailerStart : State::kData;
    case State::kDataCr:
      return c == '\r' ? State::kDataLf : State::kMalformed;
    case State::kDataLf:
      return c == '\n' ? State::kSizeStart : State::kMalformed;
    case State::kTrailerStart:
      return start_trailer(c);
    case State::kTrailerName:
      if (c == ':') return State::kTrailerValue;
      return is_token_byte(static_cast<char>(c)) ? State::kTrailerName : State::kMalformed;
    case State::kTrailerValue:
      if (c == '\r') return State::kTrailerLf;
      return detail::is_field_stop(c) ? State::kMalformed : State::kTrailerValue;
    case State::kTrailerLf:
      return c == '\n' ? State::kTrailerStart : State::kMalformed;
    case State::kEndLf:
      return c == '\n' ? State::kEnded : State::kMalformed;
    case State::kData:
    case State::kEnded:
    case State::kMalformed:
      break;
  }
  return State::kMalformed;
}

ChunkedDecoder::Step ChunkedDecoder::next(std::span<const std::byte> input, std::size_t data_max) {
  std::size_t at = 0;
  for (;;) {
    if (state_ == State::kEnded) return {Event::kEnd, at, {}};
    if (state_ == State::kMalformed) return {Event::kMalformed, at, {}};
    if (at == input.size()) return {Event::kNeedInput, at, {}};
    if (state_ == State::kData) {
      const std::size_t take = std::min({static_cast<std::uint64_t>(input.size() - at), left_,
                                         static_cast<std::uint64_t>(data_max)});
      if (take == 0) return {Event::kNeedInput, at, {}};
      left_ -= take;
      if (left_ == 0) state_ = State::kDataCr;
      return {Event::kData, at + take, input.subspan(at, take)};
    }
    const bool in_trailer = state_ >= State::kTrailerStart;
    const State following = step(static_cast<unsigned char>(input[at]));
    state_ = in_trailer && ++trailer_bytes_ > kTrailerBytesMax ? State::kMalformed : following;
    // The offending byte stays: it belongs to nothing we know.
    if (state_ != State::kMalformed) ++at;
  }
}

}  // namespace corehttpd::h1
