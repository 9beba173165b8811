#include "corehttpd/base/segment.h"

#include "corehttpd/base/check.h"

namespace corehttpd {

Segment Segment::from_static(std::string_view bytes) {
  CORE_DCHECK(bytes.size() <= kLengthMax);
  Segment segment;
  segment.length_ = static_cast<std::uint32_t>(bytes.size());
  segment.bytes_ = reinterpret_cast<const std::byte*>(bytes.data());
  return segment;
}

Segment Segment::from_block(BlockRef block, std::size_t offset, std::size_t length) {
  CORE_DCHECK(offset + length <= block->capacity());
  Segment segment;
  segment.kind_ = Kind::kBlock;
  segment.length_ = static_cast<std::uint32_t>(length);
  segment.bytes_ = block->data() + offset;
  segment.block_ = block.release();
  return segment;
}

Segment Segment::from_file(FileRef file, std::uint64_t offset, std::size_t length) {
  CORE_DCHECK(length <= kLengthMax);
  Segment segment;
  segment.kind_ = Kind::kFile;
  segment.length_ = static_cast<std::uint32_t>(length);
  segment.offset_ = offset;
  segment.file_ = file.release();
  return segment;
}

void Segment::remove_prefix(std::size_t count) {
  CORE_DCHECK(count <= length_);
  length_ -= static_cast<std::uint32_t>(count);
  if (kind_ == Kind::kFile) {
    offset_ += count;
  } else {
    bytes_ += count;
  }
}

Segment Segment::share(std::size_t offset, std::size_t length) const {
  CORE_DCHECK(offset + length <= length_);
  Segment segment;
  segment.kind_ = kind_;
  segment.length_ = length_;
  segment.offset_ = offset_;
  segment.block_ = block_;
  if (kind_ == Kind::kBlock) block_->add_reference();
  if (kind_ == Kind::kFile) file_->add_reference();
  segment.remove_prefix(offset);
  segment.truncate(length);
  return segment;
}

}  // namespace corehttpd
