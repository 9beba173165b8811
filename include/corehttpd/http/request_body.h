// The request body: in memory up to client_body_buffer_size, then in a temporary file; can be read
// again (retry, redirect). Nobody reads it until a step asks: then bytes are granted to the
// transport, a window at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/file_handle.h"
#include "corehttpd/base/list.h"
#include "corehttpd/http/body.h"

namespace corehttpd::http {

class Exchange;

class RequestBody final : public BodySink {
 public:
  // Credit that the transport is given while a body is buffered. What arrives is stored at once, so
  // this bounds only what may be under way; it is what an h2 upload can move per round trip.
  static constexpr std::uint64_t kWindowBytes = 256 * 1024;

  enum class State : std::uint8_t {
    kUnread,     // Nobody has asked for it yet.
    kReading,    // Being buffered.
    kStreaming,  // Handed on to another sink as it arrives.
    kComplete,   // All of it is here (also: there is none), or all of it was handed on.
    kFailed,     // It broke off.
    kDiscarded,  // Answered without it.
  };
  explicit RequestBody(Exchange& exchange) : exchange_(exchange) {}
  ~RequestBody();
  RequestBody(const RequestBody&) = delete;
  RequestBody& operator=(const RequestBody&) = delete;

  State state() const { return state_; }
  // Bytes received so far; of a complete body its length.
  std::uint64_t size() const { return size_; }

  // Called when buffer() has finished, at once (from within buffer()) if the body is already
  // complete. status 0: complete; else the status to fail with (400, 408, 413, 500).
  class Waiter {
   public:
    virtual void on_body(std::uint16_t status) = 0;

   protected:
    ~Waiter() = default;
  };
  // Reads it all into memory and file, within client_max_body_size. One waiter at a time, which
  // must withdraw() if it dies first. While an error page is served for a body that broke off or
  // was discarded, the body is complete and empty.
  void buffer(Waiter& waiter);
  // Stops granting; a later buffer() goes on.
  void withdraw() { waiter_ = nullptr; }
  // Streams instead: the sink gets what has been buffered so far at once, and everything later; it
  // grants through Transport::grant(). A body that is complete is better taken by reader(), which
  // is pulled.
  void stream(BodySink& sink);
  // The sink of stream() is going away; what still comes is dropped.
  void withdraw_sink() { sink_ = nullptr; }
  // Nobody wants it: the transport may discard.
  void discard();
  // A fresh reader over the complete body, from its start; in arena, which must not outlive the
  // exchange. Memory and file segments.
  BodySource* reader(Arena& arena);
  // The name of the temporary file for client_body_in_file_only ($request_body_file); empty without
  // one.
  std::string_view file_name() const { return file_name_; }
  // The body if it is complete and in memory as a whole ($request_body); nothing otherwise.
  std::string_view text(Arena& arena) const;

  void on_data(std::span<const std::byte> bytes, bool last) override;
  void on_error(const Error& error) override;

 private:
  friend class Exchange;
  friend class RequestBodyReader;
  struct Part;
  void begin();
  void finish(std::uint16_t status);
  void fail_at_once(Waiter& waiter);
  void grant();
  bool over_limit(std::size_t more);
  bool store(std::span<const std::byte> bytes);
  bool keep_in_memory(std::span<const std::byte> bytes);
  Part* add_part(Part* tail, std::size_t bytes_wanted);
  bool spill();
  bool open_file();
  bool write_file(std::span<const std::byte> bytes);
  bool replay();
  // Handed on and not kept: it can't be read again.
  bool gone() const { return size_ != 0 && first_ == nullptr && !file_; }
  void drop_parts();

  Exchange& exchange_;
  Waiter* waiter_ = nullptr;
  BodySink* sink_ = nullptr;
  Part* first_ = nullptr;  // Memory parts; none once there is a file, which then has everything.
  Part* last_ = nullptr;   // The one being filled.
  std::uint64_t size_ = 0;
  std::uint64_t credit_ = 0;  // Granted and not yet arrived.
  FileRef file_;
  std::string_view file_name_;
  std::uint16_t failed_status_ = 0;
  State state_ = State::kUnread;
  bool remove_file_ = false;  // client_body_in_file_only clean.
  bool no_file_ = false;      // The default directory can't be used: the body stays in memory.
};

}  // namespace corehttpd::http
