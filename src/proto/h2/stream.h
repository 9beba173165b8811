// One request and its response on an HTTP/2 connection: the Transport of its exchange, which it
// owns.
//
// Life: HEADERS begin → fields → head complete: the exchange starts → response head and DATA are
// framed when the library has room for them → closed by the library (both sides ended, or a reset)
// → its last bytes leave the connection's output → destroyed at the end of the turn.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <span>

#include "corehttpd/base/list.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/io/loop.h"
#include "proto/h2/request.h"
#include "proto/h2/segment_queue.h"
#include "proto/rate_pacer.h"

namespace corehttpd::h2 {

class Connection;

struct StreamTag {};
struct PendingTag {};

class Stream final : public http::Transport,
                     public ListHook<StreamTag>,
                     public ListHook<PendingTag> {
 public:
  // From a list of unused ones kept by the worker; 4 KB each, so that short requests don't go
  // through malloc.
  static Stream* make(Connection& connection, std::int32_t id);
  // Destroys at the end of the turn.
  void destroy_later();

  std::int32_t id() const { return id_; }

  // --- From the library, by way of the connection. False: the request has become abusive, end the
  // connection.
  bool on_field(std::string_view name, std::string_view value);
  // Of the trailers, which nobody reads; they are judged all the same.
  bool on_trailer(std::string_view name, std::string_view value);
  // frame_bytes: of the head as it was received. keep_priority: a PRIORITY_UPDATE frame came before
  // the request and counts for more than its fields (RFC 9218 §7). Yields the status that the head
  // itself is refused with, or 0.
  std::uint16_t on_head_complete(bool end_of_stream, std::uint64_t frame_bytes, bool keep_priority);
  void on_data(std::span<const std::byte> bytes);
  // The trailers are complete. Without END_STREAM they are none (RFC 9113 §8.1).
  void on_trailers(bool end_of_stream);
  void on_body_end();
  // The library asks for the payload of one DATA frame of at most length bytes: segments go to the
  // connection's frame list. Yields their bytes or an error code of the library's.
  ssize_t pull(std::size_t length, std::uint32_t* data_flags);
  void on_head_sent(std::size_t frame_bytes) { exchange_.add_sent(frame_bytes, 0); }
  void on_data_sent(std::size_t payload_bytes);
  // END_STREAM was framed.
  void on_response_end();
  bool response_ended() const { return response_ended_; }
  std::uint32_t chunk_bytes() const { return chunk_bytes_; }
  // The library has forgotten the stream.
  void on_closed(std::uint32_t error_code);

  // --- From the connection.
  // Work that was marked: body bytes to hand on, response data to go on with.
  void run_pending();
  // The connection is lost and the library's session with it.
  void on_connection_lost(const Error& error);
  // After on_closed() or on_connection_lost(): the last byte has been handed to the kernel (sent),
  // or never will be. Destroys later.
  void on_flushed(bool sent);
  bool reset_by_us() const { return reset_by_us_; }
  bool closed() const { return closed_; }
  // Place in the connection's output behind which nothing of this stream comes.
  std::uint64_t end_position() const { return end_position_; }
  void set_end_position(std::uint64_t position) { end_position_ = position; }
  // The next moment at which a stalled peer costs this stream its life; INT64_MAX: none.
  Milliseconds deadline_ms() const;
  // deadline_ms() has passed.
  void on_deadline();

  // --- http::Transport
  void send_informational(std::uint16_t status, const http::FieldList& fields) override;
  void send_head(const http::ResponseHead& head, http::BodySource* body) override;
  void body_ready() override;
  void grant(std::size_t bytes) override;
  void reset(const Error& error) override;
  const http::ConnectionInfo& connection() const override;

 private:
  void set_priority();
  Stream(Connection& connection, std::int32_t id);
  ~Stream() = default;
  static void destroy(TurnTask& task);

  // Of the response's body.
  enum class Body : std::uint8_t {
    kNone,     // No head yet, or a head without body.
    kFlowing,  // The source has more; the library asks when the peer has granted window.
    kBlocked,  // The source said kBlocked; body_ready() will come.
    kWaiting,  // The same, and the library has been told to stop asking.
    kEnded,    // Read to its end, cut at its length, or cancelled.
  };
  struct DestroyTask : TurnTask {
    DestroyTask(Run run, Stream& s) : TurnTask(run), stream(s) {}
    Stream& stream;
  };
  struct PaceTimer : io::Timer {
    PaceTimer(Fire fire, Stream& s) : io::Timer(fire), stream(s) {}
    Stream& stream;
  };
  bool hold_back(std::size_t& length);
  void lose(const Error& error);
  bool body_wanted();
  void deliver();
  bool deliver_some(std::span<const std::byte> bytes);
  void consume(std::size_t bytes);
  void drop_waiting();
  void spoil(const char* flaw);
  void send_continue();
  void submit_reset(std::uint32_t error_code);
  Result<std::size_t> read_frame(std::size_t length);
  ssize_t break_off(const Error& error);
  void peek_end();
  void add_trailers(std::uint32_t* data_flags);
  void cancel_source();
  void mark_pending();

  Connection& owner_;
  std::int32_t id_;
  http::Exchange exchange_;
  RequestBuilder builder_;
  // Request body: what arrived before it was granted. Bounded by the stream's and the connection's
  // window.
  SegmentQueue waiting_;
  std::uint64_t granted_ = 0;
  std::uint64_t received_ = 0;  // Body bytes so far.
  // Response body.
  http::BodySource* source_ = nullptr;
  std::uint64_t length_left_ = UINT64_MAX;  // Of content_length; UINT64_MAX: not known.
  std::uint64_t end_position_ = 0;
  Milliseconds progress_ms_ = 0;  // Last time that response bytes were framed or became available.
  Milliseconds received_ms_ = 0;  // Last time that body bytes came.
  Milliseconds send_timeout_ms_ = 0;
  Milliseconds answered_ms_ = 0;   // The response ended before the request's body.
  Error lost_;                     // What reset() was given, or what broke the source.
  std::uint32_t chunk_bytes_ = 0;  // http2_chunk_size.
  proto::RatePacer pacer_;         // limit_rate.
  // Fires when more may be framed.
  PaceTimer pace_timer_{
      [](io::Timer& timer) { static_cast<PaceTimer&>(timer).stream.body_ready(); }, *this};
  DestroyTask destroy_{&Stream::destroy, *this};
  Body body_ = Body::kNone;
  bool has_length_ = false;
  bool source_ended_ = false;
  bool ready_ = false;    // body_ready() was called since the last read.
  bool started_ = false;  // The exchange knows of the request.
  bool head_submitted_ = false;
  bool asked_ = false;      // Somebody has granted request bytes.
  bool body_seen_ = false;  // Request body bytes have come.
  bool end_received_ = false;
  bool end_delivered_ = false;
  bool response_ended_ = false;
  // The request is malformed or broke off: a reset that says so follows the answer.
  bool spoiled_ = false;
  bool reset_by_us_ = false;
  bool closed_ = false;
};

}  // namespace corehttpd::h2
