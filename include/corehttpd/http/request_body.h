// The request body: in memory up to client_body_buffer_size, then in a temporary file; can be read again (retry, redirect). Nobody reads
// it until a step asks: then bytes are granted to the transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/list.h"
#include "corehttpd/http/body.h"

namespace corehttpd::http {

class Exchange;

class RequestBody final : public BodySink {
 public:
  enum class State : std::uint8_t {
    kUnread,     // Nobody has asked for it yet.
    kReading,    // Being buffered.
    kStreaming,  // Handed on to another sink as it arrives.
    kComplete,   // All of it is here (also: there is none).
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

  // Called when buffer() has finished, at once (from within buffer()) if the body is already complete. status 0: complete;
  // else the status to fail with (400, 408, 413, 500, 507).
  class Waiter {
   public:
    virtual void on_body(std::uint16_t status) = 0;

   protected:
    ~Waiter() = default;
  };
  // Reads it all into memory and file, within client_max_body_size. The waiter must withdraw() if it dies first.
  void buffer(Waiter& waiter);
  void withdraw() { waiter_ = nullptr; }
  // Streams instead: the sink gets what has been buffered so far and everything later; it grants through Transport::grant().
  void stream(BodySink& sink);
  // Nobody wants it: the transport may discard.
  void discard();
  // A fresh reader over the complete body, from its start; in the exchange's arena. Memory and file segments.
  BodySource* reader(Arena& arena);
  // The name of the temporary file for client_body_in_file_only ($request_body_file); empty without one.
  std::string_view file_name() const { return file_name_; }
  // The body if it is complete and in memory as a whole ($request_body); nothing otherwise.
  std::string_view text(Arena& arena) const;

  void on_data(std::span<const std::byte> bytes, bool last) override;
  void on_error(const Error& error) override;

 private:
  friend class Exchange;
  struct Part;
  void finish(std::uint16_t status);
  void grant();
  bool spill(std::span<const std::byte> bytes);

  Exchange& exchange_;
  Waiter* waiter_ = nullptr;
  BodySink* sink_ = nullptr;
  Part* first_ = nullptr;  // Memory parts: blocks.
  Part* last_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t file_bytes_ = 0;
  FileHandle* file_ = nullptr;
  std::string_view file_name_;
  std::uint16_t failed_status_ = 0;
  State state_ = State::kUnread;
};

}  // namespace corehttpd::http
