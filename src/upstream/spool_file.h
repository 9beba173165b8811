// The temporary file behind a response spool: opened, written and read through the loop. It has no
// name, so that nothing is left behind whatever happens to the process. Its operations outlive its
// user: release() lets it finish and destroy itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "corehttpd/base/file_handle.h"
#include "corehttpd/base/segment.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::upstream {

class SpoolFile {
 public:
  class User {
   public:
    // The file can be written to, or could not be made (errno_value != 0).
    virtual void on_file_open(int errno_value) = 0;
    // All bytes of the last write() are in the file, or errno_value says why not.
    virtual void on_file_written(int errno_value) = 0;
    // bytes: what was asked for or less; empty when reading failed with errno_value.
    virtual void on_file_read(Segment bytes, int errno_value) = 0;

   protected:
    ~User() = default;
  };

  // directory: an existing one, absolute. The user is told when the file is there.
  static SpoolFile* open(io::Loop& loop, User& user, std::string_view directory);
  bool ready() const { return static_cast<bool>(file_); }
  bool writing() const { return write_.pending(); }
  bool reading() const { return read_.pending(); }
  // One at a time. The segment is in memory and kept until it is written.
  void write(Segment bytes, std::uint64_t offset);
  // One at a time: into a block of its own, at most length bytes.
  void read(std::uint64_t offset, std::size_t length);
  // The same without waiting, from the page cache; an empty segment when that would take the disk.
  Segment read_cached(std::uint64_t offset, std::size_t length);
  FileRef file() const { return file_; }
  // The user forgets it; nothing more is reported. Readers that hold file() keep the bytes.
  void release();

 private:
  struct Destroy : TurnTask {
    Destroy(Run run, SpoolFile& owner) : TurnTask(run), file(owner) {}
    SpoolFile& file;
  };
  struct Operation : io::Operation {
    Operation(Complete complete, SpoolFile& owner) : io::Operation(complete), file(owner) {}
    SpoolFile& file;
  };
  SpoolFile(io::Loop& loop, User& user, std::string_view directory);
  ~SpoolFile() = default;
  void start_open();
  void on_open(int result);
  void start_write();
  void on_write(int result);
  void on_read(int result);
  void finish_if_idle();

  io::Loop& loop_;
  User* user_;
  std::string path_;  // Directory, or the name tried where nameless files do not exist.
  bool named_ = false;
  FileRef file_;
  Operation open_;
  Operation write_;
  Operation read_;
  Segment write_bytes_;
  std::uint64_t write_offset_ = 0;
  BlockRef read_block_;
  Destroy destroy_;
};

}  // namespace corehttpd::upstream
