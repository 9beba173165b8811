// A refcounted open file descriptor. Closed when the last reference goes. Single-threaded.
#pragma once

#include <cstdint>
#include <utility>

namespace corehttpd {

class FileHandle {
 public:
  // Takes over fd, which must be open.
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int fd() const { return fd_; }
  void add_reference() { ++references_; }
  void release() {
    if (--references_ == 0) delete this;
  }

 private:
  ~FileHandle();
  int fd_;
  std::uint32_t references_ = 1;
};

class FileRef {
 public:
  FileRef() = default;
  // Takes over one reference.
  explicit FileRef(FileHandle* file) : file_(file) {}
  static FileRef adopt(int fd) { return FileRef(new FileHandle(fd)); }
  FileRef(const FileRef& other) : file_(other.file_) {
    if (file_ != nullptr) file_->add_reference();
  }
  FileRef(FileRef&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  FileRef& operator=(FileRef other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileRef() {
    if (file_ != nullptr) file_->release();
  }
  explicit operator bool() const { return file_ != nullptr; }
  FileHandle* get() const { return file_; }
  FileHandle* operator->() const { return file_; }
  FileHandle* release() { return std::exchange(file_, nullptr); }

 private:
  FileHandle* file_ = nullptr;
};

}  // namespace corehttpd
