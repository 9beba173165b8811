// A response body that is already in memory: a literal, or text in the exchange's arena.
#pragma once

#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/body.h"

namespace corehttpd::http {

// For text that outlives the worker's pending sends: literals and compiled configuration.
class StaticSource final : public BodySource {
 public:
  explicit StaticSource(std::string_view text) : text_(text) {}
  Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max, Forms forms) override;

 private:
  std::string_view text_;
};

// Owns a block with the text, so that the bytes outlive the exchange (a protocol may still be
// sending them when it is gone).
class BlockSource final : public BodySource {
 public:
  BlockSource(BlockRef block, std::size_t length)
      : segment_(Segment::from_block(std::move(block), 0, length)) {}
  Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max, Forms forms) override;
  void cancel() noexcept override { segment_ = Segment(); }

 private:
  Segment segment_;
};

// A source in arena with a copy of text.
BodySource* make_text_source(Arena& arena, std::string_view text);

}  // namespace corehttpd::http
