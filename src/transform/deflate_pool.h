// Compressors of a worker. Setting one up costs a quarter of a megabyte of memory to clear and as
// much time as compressing a small page, so they are kept for the next response.
#pragma once

#include <zlib.h>

#include <array>
#include <cstddef>

namespace corehttpd::transform {

class DeflatePool {
 public:
  // Compressors in use at one time (some 270 KB each); responses beyond go out as they are.
  static constexpr std::size_t kUsedMax = 512;
  static constexpr std::size_t kKeptMax = 16;

  // The worker's: one process, one thread.
  static DeflatePool& instance();
  // A stream that makes a gzip member (RFC 1952), ready for its first byte. nullptr: no memory, or
  // too many are in use.
  z_stream* take(int level);
  // From take(), in whatever state.
  void give_back(z_stream* stream);
  std::size_t used() const { return used_; }

 private:
  std::array<z_stream*, kKeptMax> kept_{};
  std::size_t kept_count_ = 0;
  std::size_t used_ = 0;
};

}  // namespace corehttpd::transform
