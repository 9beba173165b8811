#include "transform/range_source.h"

#include <algorithm>

namespace corehttpd::transform {

using http::Next;
using http::ReadOutcome;

void RangeSource::begin_part() {
  if (index_ < parts_.size()) {
    const Part& part = parts_[index_];
    text_at_ = part.head_begin;
    text_end_ = part.head_end;
    if (seekable_) {
      inner_.restrict(part.range.first, part.range.end);
      position_ = part.range.first;
    }
    return;
  }
  text_at_ = parts_.empty() ? 0 : parts_.back().head_end;
  text_end_ = texts_bytes_;
  // What follows the last range is of no interest.
  if (!seekable_) inner_.cancel();
}

ReadOutcome RangeSource::outcome(std::uint32_t segments) const {
  const bool end = index_ == parts_.size() && text_at_ == text_end_;
  return {segments, end ? Next::kEnd : Next::kMore};
}

Result<ReadOutcome> RangeSource::read(std::span<Segment> out, std::size_t bytes_max,
                                      http::Forms forms) {
  if (text_at_ != text_end_) {
    const std::size_t length = std::min(text_end_ - text_at_, bytes_max);
    out[0] = Segment::from_block(texts_, text_at_, length);
    text_at_ += length;
    return outcome(1);
  }
  if (index_ == parts_.size()) return outcome(0);
  if (position_ < parts_[index_].range.first) {
    const auto skipped = skip(out, forms);
    if (!skipped || skipped->next == Next::kBlocked) return skipped;
  }
  return read_part(out, bytes_max, forms);
}

// Reads and drops what lies before the current range. Never reads into it.
Result<ReadOutcome> RangeSource::skip(std::span<Segment> out, http::Forms forms) {
  while (position_ < parts_[index_].range.first) {
    const std::uint64_t gap = parts_[index_].range.first - position_;
    const auto got = inner_.read(
        out, static_cast<std::size_t>(std::min<std::uint64_t>(gap, Segment::kLengthMax)), forms);
    if (!got) return got;
    for (std::uint32_t i = 0; i < got->segments; ++i) {
      position_ += out[i].length();
      out[i] = Segment();
    }
    if (got->next == Next::kBlocked && position_ < parts_[index_].range.first) {
      return ReadOutcome{0, Next::kBlocked};
    }
    if (got->next == Next::kEnd) return fail(Code::kMalformed, "body ended before its range");
  }
  return ReadOutcome{0, Next::kMore};
}

Result<ReadOutcome> RangeSource::read_part(std::span<Segment> out, std::size_t bytes_max,
                                           http::Forms forms) {
  const std::uint64_t left = parts_[index_].range.end - position_;
  const auto got =
      inner_.read(out, static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes_max)), forms);
  if (!got) return got;
  for (std::uint32_t i = 0; i < got->segments; ++i) position_ += out[i].length();
  if (position_ == parts_[index_].range.end) {
    ++index_;
    begin_part();
    return outcome(got->segments);
  }
  if (got->next == Next::kEnd) return fail(Code::kMalformed, "body ended within its range");
  return got;
}

}  // namespace corehttpd::transform
