// Takes a response's body from its origin as fast as that sends, and is what the client's transport
// pulls from: a slow client never holds the origin. Memory first, then a temporary file up to a
// limit, and only then the origin has to wait. See docs/flow_control.md.
//
// Order: what is in the file is older than what is in memory; blocks move from the front of memory
// to the end of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/http/body.h"
#include "corehttpd/io/loop.h"
#include "upstream/block_queue.h"
#include "upstream/spool_file.h"

namespace corehttpd::upstream {

class ResponseSpool final : public http::BodySource, private SpoolFile::User {
 public:
  struct Limits {
    std::uint64_t memory_bytes = 256 * 1024;
    std::uint64_t file_bytes = 0;     // 0: no file.
    std::string_view directory = {};  // For the file.
  };
  class Owner {
   public:
    // A read() that found nothing would find something now (or an end, or an error).
    virtual void on_spool_ready() = 0;
    // full() was true and is no more.
    virtual void on_spool_room() = 0;
    // The first bytes go to a temporary file.
    virtual void on_spool_to_file() = 0;
    // The temporary file failed; the spool goes on without it.
    virtual void on_spool_file_error(const char* operation, int errno_value) = 0;
    // The client wants no more of it.
    virtual void on_spool_cancelled() = 0;

   protected:
    ~Owner() = default;
  };

  ResponseSpool(io::Loop& loop, Owner& owner)
      : loop_(loop), owner_(owner), memory_(loop.blocks()) {}
  ~ResponseSpool() { close_file(); }
  ResponseSpool(const ResponseSpool&) = delete;
  ResponseSpool& operator=(const ResponseSpool&) = delete;

  // Before the first append(). expected: the origin's Content-Length, to which the body is held.
  void configure(const Limits& limits, std::optional<std::uint64_t> expected);

  // --- For the origin's side.
  enum class Append : std::uint8_t {
    kTaken,
    kComplete,  // With these bytes the expected length is reached; the body has ended.
    kExcess,    // More than the expected length: the rest was cut, the body has ended.
  };
  Append append(std::span<const std::byte> bytes);
  // The origin's response is complete. False if the body is shorter than expected: then it has
  // failed.
  bool finish();
  // It broke off; the client gets what is here and then the error.
  void fail(const Error& error);
  // The origin should wait. Bytes appended all the same are kept.
  bool full() const;
  bool ended() const { return state_ != State::kOpen; }
  bool failed() const { return state_ == State::kFailed; }
  // Nobody reads it any more; appended bytes are dropped.
  bool cancelled() const { return cancelled_; }
  // Body bytes taken from the origin so far.
  std::uint64_t bytes_total() const { return total_; }
  // Everything was read to its end.
  bool delivered() const { return delivered_; }

  // --- BodySource, for the client's side.
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms forms) override;
  void cancel() noexcept override;

 private:
  enum class State : std::uint8_t {
    kOpen,    // The origin may still append.
    kEnded,   // All of the body is here.
    kFailed,  // It broke off; error_ comes after the bytes that are here.
  };
  void on_file_open(int errno_value) override;
  void on_file_written(int errno_value) override;
  void on_file_read(Segment bytes, int errno_value) override;

  bool may_spill() const;
  void spill();
  void file_failed(const char* operation, int errno_value);
  void close_file();
  // Fills one segment from the file; false when the disk has to be waited for.
  bool read_file(Segment& out, std::size_t bytes_max, http::Forms forms);
  void take_from_memory(Segment& out, std::size_t bytes_max);
  void wake_reader();
  void note_room();

  io::Loop& loop_;
  Owner& owner_;
  Limits limits_;
  std::optional<std::uint64_t> expected_;
  BlockQueue memory_;
  SpoolFile* file_ = nullptr;
  std::uint64_t file_begin_ = 0;  // Unread bytes of the file: file_begin_ … file_end_.
  std::uint64_t file_end_ = 0;
  // Of the block being written: its bytes are at the front of memory_ until the write is done.
  std::size_t writing_ = 0;
  std::size_t writing_consumed_ = 0;  // What a reader took of them meanwhile.
  Segment fetched_;                   // Read back by the loop, not yet handed out.
  std::uint64_t total_ = 0;
  Error error_;
  State state_ = State::kOpen;
  bool file_unusable_ = false;
  bool blocked_ = false;  // The reader was told to wait.
  bool was_full_ = false;
  bool cancelled_ = false;
  bool delivered_ = false;
};

}  // namespace corehttpd::upstream
