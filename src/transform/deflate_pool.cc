#include "transform/deflate_pool.h"

#include <new>

namespace corehttpd::transform {
namespace {

constexpr int kGzipWindowBits =
    15 + 16;                     // The largest window; + 16: with gzip's header and trailer.
constexpr int kMemoryLevel = 8;  // zlib's default.

void destroy(z_stream* stream) {
  deflateEnd(stream);
  delete stream;
}

}  // namespace

DeflatePool& DeflatePool::instance() {
  static DeflatePool pool;
  return pool;
}

z_stream* DeflatePool::take(int level) {
  if (used_ >= kUsedMax) return nullptr;
  if (kept_count_ > 0) {
    z_stream* stream = kept_[--kept_count_];
    // No byte has gone in since the reset, so that changing the level only changes a number.
    if (deflateParams(stream, level, Z_DEFAULT_STRATEGY) == Z_OK) {
      ++used_;
      return stream;
    }
    destroy(stream);
  }
  auto* stream = new (std::nothrow) z_stream();
  if (stream == nullptr) return nullptr;
  if (deflateInit2(stream, level, Z_DEFLATED, kGzipWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    delete stream;
    return nullptr;
  }
  ++used_;
  return stream;
}

void DeflatePool::give_back(z_stream* stream) {
  --used_;
  if (kept_count_ < kKeptMax && deflateReset(stream) == Z_OK) {
    stream->next_in = nullptr;
    stream->avail_in = 0;
    kept_[kept_count_++] = stream;
  } else {
    destroy(stream);
  }
}

}  // namespace corehttpd::transform
