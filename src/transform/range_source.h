// Yields one or more ranges of another source, each behind a head of its own.
#pragma once

#include <cstdint>
#include <span>

#include "corehttpd/http/body.h"
#include "corehttpd/http/range.h"

namespace corehttpd::transform {

class RangeSource final : public http::BodySource {
 public:
  struct Part {
    http::ByteRange range;
    std::size_t head_begin = 0;  // In texts.
    std::size_t head_end = 0;
  };
  // A source that can't seek is read and what lies between the ranges dropped; the parts must then
  // be in ascending order without overlap. parts live in the exchange's arena; texts holds their
  // heads and, behind the last one, what closes the body, up to texts_bytes (empty: neither).
  RangeSource(http::BodySource& inner, std::span<const Part> parts, BlockRef texts,
              std::size_t texts_bytes, bool seekable)
      : inner_(inner),
        parts_(parts),
        texts_(std::move(texts)),
        texts_bytes_(texts_bytes),
        seekable_(seekable) {
    begin_part();
  }
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms forms) override;
  void cancel() noexcept override {
    inner_.cancel();
    texts_.reset();
  }

 private:
  void begin_part();
  Result<http::ReadOutcome> skip(std::span<Segment> out, http::Forms forms);
  Result<http::ReadOutcome> read_part(std::span<Segment> out, std::size_t bytes_max,
                                      http::Forms forms);
  http::ReadOutcome outcome(std::uint32_t segments) const;

  http::BodySource& inner_;
  std::span<const Part> parts_;
  BlockRef texts_;
  std::size_t texts_bytes_;
  bool seekable_;
  std::size_t index_ = 0;    // The current part; parts_.size(): the closing text.
  std::size_t text_at_ = 0;  // What is still to be sent of the text before it.
  std::size_t text_end_ = 0;
  std::uint64_t position_ = 0;  // In inner.
};

}  // namespace corehttpd::transform
