// Follows the frames of what a client sends without reading their payloads. The library drops some
// unseen (DATA of a closed stream, PRIORITY, types that it does not know) and takes any number of
// others; here each can be judged first.
#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace corehttpd::h2 {

class FrameScanner {
 public:
  struct Frame {
    std::uint8_t type, flags;
    std::uint32_t length;
    std::int32_t stream_id;
    std::int32_t parent_id;  // PRIORITY: what the stream depends on.
    std::size_t bytes;       // What was looked at: next() stands behind so many of the frame.
  };
  // skip: bytes before the first frame.
  explicit FrameScanner(std::size_t skip) : skip_(skip) {}

  // The next frame of data but HEADERS and RST_STREAM, which are told by what they lead to. From
  // `at` on, which is moved behind its header; it may have begun in earlier data. nullptr: there is
  // none, at is the end. Each byte of the connection must be shown once and in order.
  const Frame* next(std::span<const std::byte> data, std::size_t& at) {
    while (at < data.size()) {
      const std::size_t left = data.size() - at;
      if (skip_ != 0) {
        const std::size_t bytes = std::min(skip_, left);
        skip_ -= bytes;
        at += bytes;
        continue;
      }
      const std::size_t wanted = have_ < kHeader ? kHeader : kHeader + kParent;
      const std::size_t bytes = std::min(wanted - have_, left);
      std::memcpy(header_ + have_, data.data() + at, bytes);
      have_ += bytes;
      at += bytes;
      if (have_ < wanted) return nullptr;
      if (is_complete()) {
        skip_ = length() - (have_ - kHeader);
        have_ = 0;
        if (frame_.type != NGHTTP2_HEADERS && frame_.type != NGHTTP2_RST_STREAM) return &frame_;
      }
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kHeader = 9, kParent = 4;

  std::uint32_t length() const {
    return std::uint32_t{header_[0]} << 16 | std::uint32_t{header_[1]} << 8 | header_[2];
  }
  std::int32_t number(std::size_t at) const {
    return static_cast<std::int32_t>((std::uint32_t{header_[at]} << 24 |
                                      std::uint32_t{header_[at + 1]} << 16 |
                                      std::uint32_t{header_[at + 2]} << 8 | header_[at + 3]) &
                                     0x7fff'ffff);
  }
  // False: four more bytes are of interest.
  bool is_complete() {
    if (have_ == kHeader && header_[3] == NGHTTP2_PRIORITY && length() == 5) return false;
    frame_ = {header_[3], header_[4], length(), number(5), have_ == kHeader ? 0 : number(kHeader),
              have_};
    return true;
  }

  std::uint8_t header_[kHeader + kParent];
  std::size_t have_ = 0;  // Bytes in header_.
  std::size_t skip_;
  Frame frame_{};
};

}  // namespace corehttpd::h2
