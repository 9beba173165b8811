#include "upstream/spool_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {

SpoolFile* SpoolFile::open(io::Loop& loop, User& user, std::string_view directory) {
  auto* file = new SpoolFile(loop, user, directory);
  file->start_open();
  return file;
}

SpoolFile::SpoolFile(io::Loop& loop, User& user, std::string_view directory)
    : loop_(loop),
      user_(&user),
      path_(directory),
      open_([](io::Operation& o, int result) { static_cast<Operation&>(o).file.on_open(result); },
            *this),
      write_([](io::Operation& o, int result) { static_cast<Operation&>(o).file.on_write(result); },
             *this),
      read_([](io::Operation& o, int result) { static_cast<Operation&>(o).file.on_read(result); },
            *this),
      destroy_(
          [](TurnTask& task) {
            SpoolFile& file = static_cast<Destroy&>(task).file;
            if (!file.open_.pending() && !file.write_.pending() && !file.read_.pending()) {
              delete &file;
            }
          },
          *this) {}

void SpoolFile::start_open() {
  if (named_) {
    loop_.open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600, open_);
  } else {
    loop_.open(path_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600, open_);
  }
}

void SpoolFile::on_open(int result) {
  if (result < 0 && !named_ && (result == -EOPNOTSUPP || result == -EISDIR || result == -EINVAL)) {
    // A file system without nameless files: make a name and take it away again.
    static std::uint64_t counter = 0;
    named_ = true;
    path_ = fmt::format("{}/core-{}-{}", path_, ::getpid(), ++counter);
    return start_open();
  }
  if (result >= 0) {
    if (named_) ::unlink(path_.c_str());
    file_ = FileRef::adopt(result);
  }
  if (user_ == nullptr) return finish_if_idle();
  user_->on_file_open(result < 0 ? -result : 0);
}

void SpoolFile::write(Segment bytes, std::uint64_t offset) {
  CORE_DCHECK(ready() && !writing() && bytes.in_memory());
  write_bytes_ = std::move(bytes);
  write_offset_ = offset;
  start_write();
}

void SpoolFile::start_write() {
  loop_.write(file_->fd(), write_bytes_.bytes(), write_bytes_.length(), write_offset_, write_);
}

void SpoolFile::on_write(int result) {
  if (result == 0) result = -ENOSPC;
  if (result > 0) {
    write_bytes_.remove_prefix(static_cast<std::size_t>(result));
    write_offset_ += static_cast<std::uint64_t>(result);
    if (write_bytes_.length() > 0 && user_ != nullptr) return start_write();
  } else if ((result == -EINTR || result == -EAGAIN) && user_ != nullptr) {
    return start_write();
  }
  write_bytes_ = Segment();
  if (user_ == nullptr) return finish_if_idle();
  user_->on_file_written(result < 0 ? -result : 0);
}

Segment SpoolFile::read_cached(std::uint64_t offset, std::size_t length) {
  BlockRef block = loop_.blocks().take();
  if (!block) block = Block::allocate(BlockPool::kBlockBytes);
  iovec vector{block->data(), std::min(length, block->capacity())};
  const ssize_t got = ::preadv2(file_->fd(), &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got <= 0) return {};
  return Segment::from_block(std::move(block), 0, static_cast<std::size_t>(got));
}

void SpoolFile::read(std::uint64_t offset, std::size_t length) {
  CORE_DCHECK(ready() && !reading());
  read_block_ = loop_.blocks().take();
  if (!read_block_) read_block_ = Block::allocate(BlockPool::kBlockBytes);
  loop_.read(file_->fd(), read_block_->data(), std::min(length, read_block_->capacity()), offset,
             read_);
}

void SpoolFile::on_read(int result) {
  BlockRef block = std::move(read_block_);
  if (user_ == nullptr) return finish_if_idle();
  if (result > 0) {
    user_->on_file_read(Segment::from_block(std::move(block), 0, static_cast<std::size_t>(result)),
                        0);
  } else {
    // Nothing at an offset that we wrote ourselves: somebody has cut the file.
    user_->on_file_read({}, result == 0 ? EIO : -result);
  }
}

void SpoolFile::release() {
  user_ = nullptr;
  finish_if_idle();
}

void SpoolFile::finish_if_idle() {
  if (open_.pending() || write_.pending() || read_.pending()) return;
  loop_.turn().post_destroy(destroy_);
}

}  // namespace corehttpd::upstream
