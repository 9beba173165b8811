#include "transform/gzip_source.h"

#include <algorithm>
#include <array>

#include "corehttpd/base/check.h"
#include "transform/deflate_pool.h"

namespace corehttpd::transform {
namespace {

using http::Next;
using http::ReadOutcome;

// What is compressed in one read() at most, so that a body of zeros doesn't hold up the worker.
constexpr std::size_t kInputPerReadMax = 128 * 1024;
constexpr std::size_t kInnerReadBytes = 64 * 1024;

// Pulls from inner, compresses into one block of the pool at a time. Holds at most that block and
// the segments of one inner read.
class GzipSource final : public http::BodySource {
 public:
  GzipSource(http::BodySource& inner, BlockPool& blocks, z_stream* stream)
      : inner_(inner), blocks_(blocks), stream_(stream) {}
  ~GzipSource() override { release(); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max, http::Forms) override;
  void cancel() noexcept override {
    inner_.cancel();
    release();
  }
  const http::FieldList* trailers() override { return inner_.trailers(); }

 private:
  enum class State : std::uint8_t {
    kOpen,      // More input will come.
    kFlushing,  // Inner has nothing now: what was taken in is being pressed out (Z_SYNC_FLUSH).
    kEnding,    // Inner has ended: trailer to be written.
    kEnded,     // The whole member is in the block or gone out.
  };
  Result<Next> produce();
  Result<Next> take_input();
  Result<void> compress(int flush);
  ReadOutcome give(std::span<Segment> out, std::size_t bytes_max, Next next);
  bool block_full() const { return block_ && used_ == block_->capacity(); }
  bool has_output() const { return given_ < used_; }
  void give_compressor_back();
  void release();

  http::BodySource& inner_;
  BlockPool& blocks_;
  z_stream* stream_;  // nullptr: the member is complete, or gone_.
  std::array<Segment, 4> input_;
  std::size_t input_count_ = 0, input_at_ = 0;
  BlockRef block_;
  std::size_t used_ = 0, given_ = 0;
  std::size_t taken_ = 0;  // Input bytes of this read().
  State state_ = State::kOpen;
  bool dirty_ = false;  // Input has gone in since the last flush.
  bool inner_ended_ = false;
  bool gone_ = false;  // Cancelled or failed.
};

void GzipSource::give_compressor_back() {
  if (stream_ != nullptr) DeflatePool::instance().give_back(std::exchange(stream_, nullptr));
}

void GzipSource::release() {
  gone_ = true;
  give_compressor_back();
  for (Segment& segment : input_) segment = Segment();
  block_.reset();
  used_ = given_ = 0;
}

Result<ReadOutcome> GzipSource::read(std::span<Segment> out, std::size_t bytes_max, http::Forms) {
  if (gone_) return fail(Code::kInternal, "reading a compressed body that is gone");
  taken_ = 0;
  // Bytes left over from the last read are given first; the inner source is asked again in any case
  // before kBlocked is said, because it may have become ready meanwhile.
  Next next = Next::kMore;
  if (!block_full()) {
    const Result<Next> produced = produce();
    if (!produced) {
      release();
      return std::unexpected(produced.error());
    }
    next = *produced;
  }
  return give(out, bytes_max, next);
}

// Compresses until the block is full, the inner source has nothing now or has ended, or it has been
// enough for one read. kBlocked and kEnd are said only when all output is in the block.
Result<Next> GzipSource::produce() {
  while (!block_full()) {
    if (state_ == State::kFlushing || state_ == State::kEnding) {
      CORE_TRY_VOID(compress(state_ == State::kEnding ? Z_FINISH : Z_SYNC_FLUSH));
      if (state_ == State::kEnded) return Next::kEnd;
      // A flush is complete when zlib leaves room.
      if (state_ == State::kFlushing && !block_full()) {
        state_ = State::kOpen;
        dirty_ = false;
        return Next::kBlocked;
      }
      continue;
    }
    if (state_ == State::kEnded) return Next::kEnd;
    if (input_at_ < input_count_) {
      CORE_TRY_VOID(compress(Z_NO_FLUSH));
      if (taken_ >= kInputPerReadMax) return Next::kMore;
      continue;
    }
    if (inner_ended_) {
      state_ = State::kEnding;
      continue;
    }
    const Next inner = CORE_TRY(take_input());
    if (input_count_ != 0 || inner == Next::kEnd) continue;
    if (inner == Next::kMore) return Next::kMore;
    if (!dirty_) return Next::kBlocked;
    state_ = State::kFlushing;
  }
  return Next::kMore;
}

Result<Next> GzipSource::take_input() {
  input_at_ = input_count_ = 0;
  const ReadOutcome outcome = CORE_TRY(inner_.read(input_, kInnerReadBytes, http::Forms::kMemory));
  input_count_ = outcome.segments;
  inner_ended_ = outcome.next == Next::kEnd;
  return outcome.next;
}

// One call of deflate() with the current input segment, if there is one, into the block.
Result<void> GzipSource::compress(int flush) {
  if (!block_) {
    block_ = blocks_.take();
    used_ = given_ = 0;
    if (!block_) return fail(Code::kUnavailable, "compressing a response");
  }
  Segment* segment = flush == Z_NO_FLUSH ? &input_[input_at_] : nullptr;
  const std::size_t offered = segment == nullptr ? 0 : segment->length();
  const std::size_t room = block_->capacity() - used_;
  stream_->next_in = segment == nullptr
                         ? nullptr
                         : reinterpret_cast<Bytef*>(const_cast<std::byte*>(segment->bytes()));
  stream_->avail_in = static_cast<uInt>(offered);
  stream_->next_out = reinterpret_cast<Bytef*>(block_->data() + used_);
  stream_->avail_out = static_cast<uInt>(room);
  const int result = deflate(stream_, flush);
  used_ += room - stream_->avail_out;
  if (segment != nullptr) {
    const std::size_t consumed = offered - stream_->avail_in;
    taken_ += consumed;
    dirty_ = dirty_ || consumed != 0;
    segment->remove_prefix(consumed);
    if (segment->length() == 0) {
      *segment = Segment();
      ++input_at_;
    }
  }
  if (result == Z_STREAM_END) {
    // A slow client may take its time with the last block; the compressor is wanted elsewhere.
    state_ = State::kEnded;
    give_compressor_back();
  }
  // Z_BUF_ERROR only says that there was nothing to do: an empty segment, or a flush already done.
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
    return fail(Code::kInternal, "deflate()", result);
  }
  return {};
}

ReadOutcome GzipSource::give(std::span<Segment> out, std::size_t bytes_max, Next next) {
  if (!has_output()) return {0, next};
  const std::size_t count = std::min(used_ - given_, bytes_max);
  out[0] = Segment::from_block(block_, given_, count);
  given_ += count;
  if (has_output()) return {1, Next::kMore};
  // The segment keeps the block; what follows goes behind it or into a fresh one.
  if (block_full() || next != Next::kMore) block_.reset();
  if (!block_) used_ = given_ = 0;
  return {1, next};
}

}  // namespace

http::BodySource* make_gzip_source(http::Exchange& exchange, http::BodySource& inner, int level) {
  z_stream* stream = DeflatePool::instance().take(level);
  if (stream == nullptr) return nullptr;
  return exchange.arena().make<GzipSource>(inner, exchange.services().blocks, stream);
}

}  // namespace corehttpd::transform
