#include "corehttpd/assets/file_source.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "corehttpd/io/loop.h"

namespace corehttpd::assets {

// One read by the ring. The kernel may write to the block after the exchange is gone, so this lives
// on the heap, owns block and file, and outlives its source if need be.
struct FileSource::Load final : io::Operation {
  Load(FileSource& source, BlockRef target)
      : Operation(complete), owner(&source), block(std::move(target)), file(source.file_) {}

  static void complete(io::Operation& operation, int result) {
    auto& load = static_cast<Load&>(operation);
    load.finished = true;
    load.result = result;
    if (load.owner == nullptr) {
      delete &load;
    } else {
      load.owner->exchange_.transport().body_ready();
    }
  }

  FileSource* owner;
  BlockRef block;
  FileRef file;
  int result = 0;
  bool finished = false;
};

FileSource::FileSource(http::Exchange& exchange, FileEntry entry)
    : exchange_(exchange),
      loop_(exchange.services().loop),
      content_(std::move(entry.content)),
      file_(std::move(entry.file)),
      end_(entry.size) {}

bool FileSource::restrict(std::uint64_t begin, std::uint64_t end) {
  abandon_load();
  loaded_ = Segment();
  position_ = begin;
  end_ = end;
  return true;
}

void FileSource::cancel() noexcept {
  abandon_load();
  loaded_ = Segment();
  content_.reset();
  file_ = FileRef();
  position_ = end_;
}

http::ReadOutcome FileSource::advance(std::uint32_t segments) const {
  return {segments, position_ == end_ ? http::Next::kEnd : http::Next::kMore};
}

Result<http::ReadOutcome> FileSource::read(std::span<Segment> out, std::size_t bytes_max,
                                           http::Forms forms) {
  if (position_ == end_) return http::ReadOutcome{0, http::Next::kEnd};
  const auto length = static_cast<std::size_t>(
      std::min<std::uint64_t>({end_ - position_, bytes_max, Segment::kLengthMax}));
  if (content_) {
    out[0] = Segment::from_block(content_, position_, length);
  } else if (forms == http::Forms::kFiles && load_ == nullptr && loaded_.length() == 0) {
    out[0] = Segment::from_file(file_, position_, length);
  } else {
    return read_memory(out, bytes_max);
  }
  position_ += length;
  return advance(1);
}

Result<http::ReadOutcome> FileSource::read_memory(std::span<Segment> out, std::size_t bytes_max) {
  if (load_ != nullptr && !load_->finished) return http::ReadOutcome{0, http::Next::kBlocked};
  if (load_ != nullptr || loaded_.length() != 0) return take_loaded(out[0], bytes_max);
  auto filled = read_cached(out, bytes_max);
  if (!filled) return std::unexpected(filled.error());
  if (*filled != 0) return advance(*filled);
  return start_load();
}

// What the page cache holds, without waiting. 0: the next bytes are not in it.
Result<std::uint32_t> FileSource::read_cached(std::span<Segment> out, std::size_t bytes_max) {
  std::size_t wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(end_ - position_, bytes_max));
  std::array<BlockRef, kBlocksPerRead> blocks;
  std::array<iovec, kBlocksPerRead> parts;
  std::size_t count = 0;
  for (; count < std::min(blocks.size(), out.size()) && wanted != 0; ++count) {
    blocks[count] = exchange_.services().blocks.take();
    if (!blocks[count]) break;
    const std::size_t length = std::min(wanted, blocks[count]->capacity());
    parts[count] = {blocks[count]->data(), length};
    wanted -= length;
  }
  if (count == 0) return fail(Code::kUnavailable, "reading a file: out of buffers");
  ssize_t got;
  do {
    got = ::preadv2(file_->fd(), parts.data(), static_cast<int>(count),
                    static_cast<off_t>(position_), RWF_NOWAIT);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return truncated();
  if (got < 0) {
    if (errno == EAGAIN || errno == EOPNOTSUPP) return 0;
    return std::unexpected(error_from_errno(errno, "preadv2()"));
  }
  std::uint32_t segments = 0;
  for (auto left = static_cast<std::size_t>(got); left != 0; ++segments) {
    const std::size_t length = std::min(left, parts[segments].iov_len);
    out[segments] = Segment::from_block(std::move(blocks[segments]), 0, length);
    left -= length;
  }
  position_ += static_cast<std::uint64_t>(got);
  return segments;
}

Result<http::ReadOutcome> FileSource::start_load() {
  BlockRef block = exchange_.services().blocks.take();
  if (!block) return fail(Code::kUnavailable, "reading a file: out of buffers");
  const auto length =
      static_cast<std::size_t>(std::min<std::uint64_t>(end_ - position_, block->capacity()));
  load_ = new Load(*this, std::move(block));
  loop_.read(file_->fd(), load_->block->data(), length, position_, *load_);
  return http::ReadOutcome{0, http::Next::kBlocked};
}

Result<http::ReadOutcome> FileSource::take_loaded(Segment& out, std::size_t bytes_max) {
  if (load_ != nullptr) {
    const int result = load_->result;
    BlockRef block = std::move(load_->block);
    delete load_;
    load_ = nullptr;
    if (result == -EINTR || result == -EAGAIN) return start_load();
    if (result < 0) return std::unexpected(error_from_errno(-result, "read()"));
    if (result == 0) return truncated();
    loaded_ = Segment::from_block(std::move(block), 0, static_cast<std::size_t>(result));
  }
  const std::size_t length = std::min(loaded_.length(), bytes_max);
  out = loaded_.share(0, length);
  loaded_.remove_prefix(length);
  if (loaded_.length() == 0) loaded_ = Segment();
  position_ += length;
  return advance(1);
}

// The kernel lets go of the block in its own time; the load frees itself then.
void FileSource::abandon_load() {
  if (load_ == nullptr) return;
  Load* load = std::exchange(load_, nullptr);
  load->owner = nullptr;
  if (load->finished) {
    delete load;
  } else {
    loop_.cancel(*load);
  }
}

std::unexpected<Error> FileSource::truncated() {
  exchange_.log(LogLevel::kAlert, 0, "file was truncated at {} of {} bytes while it was sent",
                position_, end_);
  return fail(Code::kSystem, "file was truncated");
}

}  // namespace corehttpd::assets
