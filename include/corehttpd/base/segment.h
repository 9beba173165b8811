// A piece of a body on its way out: static bytes, part of a refcounted block, or a range of an open
// file. A segment owns one reference to what it points into and is move-only; it lives until the
// transport reports the bytes gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "corehttpd/base/block.h"
#include "corehttpd/base/file_handle.h"

namespace corehttpd {

class Segment {
 public:
  enum class Kind : std::uint8_t { kStatic, kBlock, kFile };
  static constexpr std::size_t kLengthMax = UINT32_MAX;

  Segment() = default;
  // Bytes that outlive every use of the segment: literals, compiled configuration, an arena that
  // outlives the response.
  static Segment from_static(std::string_view bytes);
  // length bytes at offset of block.
  static Segment from_block(BlockRef block, std::size_t offset, std::size_t length);
  // length bytes at offset of file.
  static Segment from_file(FileRef file, std::uint64_t offset, std::size_t length);
  Segment(Segment&& other) noexcept { take(other); }
  Segment& operator=(Segment&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~Segment() { drop(); }

  Kind kind() const { return kind_; }
  std::size_t length() const { return length_; }
  bool in_memory() const { return kind_ != Kind::kFile; }
  // Memory segments only.
  const std::byte* bytes() const { return bytes_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_), length_}; }
  // File segments only.
  int fd() const { return file_->fd(); }
  std::uint64_t file_offset() const { return offset_; }
  FileRef file() const {
    file_->add_reference();
    return FileRef(file_);
  }
  // Drops count bytes at the front; count <= length().
  void remove_prefix(std::size_t count);
  // Cuts to count bytes; count <= length().
  void truncate(std::size_t count) { length_ = static_cast<std::uint32_t>(count); }
  // Another segment on the same bytes, from offset for length.
  Segment share(std::size_t offset, std::size_t length) const;

 private:
  void take(Segment& other) {
    kind_ = other.kind_;
    length_ = other.length_;
    offset_ = other.offset_;
    block_ = other.block_;
    other.kind_ = Kind::kStatic;
    other.length_ = 0;
    other.block_ = nullptr;
  }
  void drop() {
    if (block_ == nullptr || kind_ == Kind::kStatic) return;
    if (kind_ == Kind::kBlock)
      block_->release();
    else
      file_->release();
    block_ = nullptr;
  }
  Kind kind_ = Kind::kStatic;
  std::uint32_t length_ = 0;
  union {
    std::uint64_t offset_ = 0;
    const std::byte* bytes_;
  };
  union {
    Block* block_ = nullptr;
    FileHandle* file_;
  };
};
static_assert(sizeof(Segment) == 24);

}  // namespace corehttpd
