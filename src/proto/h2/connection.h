// One HTTP/2 connection: an nghttp2 session between the loop's receives and gathered sends.
// Everything that a turn produces leaves in one send; while that is under way nothing more is
// framed than what the next one takes (kOutputMax).
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "corehttpd/base/log.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/services.h"
#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h2/budget.h"
#include "proto/h2/frame_scanner.h"
#include "proto/h2/memory.h"
#include "proto/h2/segment_queue.h"
#include "proto/h2/settings.h"
#include "proto/h2/stream.h"
#include "proto/tls_channel.h"

namespace corehttpd::h2 {

class Connection final : public proto::LiveConnection, public LogContext, private io::Receiver {
 public:
  // Framing stops above this and goes on when a send has made room.
  static constexpr std::size_t kOutputMax = 96 * 1024;
  // What a client may send of request bodies that nobody has asked for yet, on the whole
  // connection…
  static constexpr std::int32_t kConnectionWindow = 1024 * 1024;
  // …and on a stream somebody reads; before that it is http2_body_preread_size.
  static constexpr std::int32_t kStreamWindow = 256 * 1024;
  static constexpr std::size_t kFrameSegmentsMax = 16;
  // How long, and how much, may still come for a stream that we have reset: what was under way is
  // at most a connection's window, and as much again while the reset travels.
  static constexpr Milliseconds kLateFramesMs = 10'000;
  static constexpr std::uint32_t kLateBytesMax = 4 * kConnectionWindow;

  Connection(int fd, const http::ConnectionInfo& info, http::Services& services,
             proto::ConnectionSet& set, std::unique_ptr<proto::TlsChannel> tls);
  // Begins to serve. The connection destroys itself in the end, also when this fails.
  void begin(std::span<const std::byte> received);

  // --- proto::LiveConnection
  void drain() override;
  void close_now() override;

  // --- For streams.
  // Awake: its memory may have been at rest.
  nghttp2_session* session() {
    memory_.wake();
    return session_;
  }
  http::Services& services() { return services_; }
  const http::ConnectionInfo& info() const { return info_; }
  const http::CoreSettings& settings() const { return settings_; }
  const Settings& h2_settings() const { return h2_settings_; }
  Milliseconds now_ms() const { return services_.clock.now_ms(); }
  // Something is to be framed or to be looked at: at the end of this turn.
  void post() { services_.turn.post(turn_); }
  void add_pending(Stream& stream) {
    if (!stream.ListHook<PendingTag>::linked()) pending_.push_back(stream);
    post();
  }
  // Payload of the DATA frame being made.
  std::span<Segment> frame_segments() { return frame_.segments; }
  void set_frame_segments(std::size_t count);
  // The tick must come no later than at this time.
  void need_tick(Milliseconds at_ms);
  void on_stream_destroyed();

  // --- LogContext
  void describe(LogFields& fields) const override;
  std::uint64_t connection_number() const override { return info_.number; }
  bool debugged() const override { return info_.debug; }

  // --- From the library (callbacks.cc).
  int on_begin_frame(const nghttp2_frame_hd& header);
  int on_begin_headers(const nghttp2_frame& frame);
  int on_frame(const nghttp2_frame& frame);
  int on_frame_sent(const nghttp2_frame& frame);
  // Whose request head is being received; saves a look-up per field. nullptr: it has gone
  // meanwhile.
  Stream* header_stream() const { return header_stream_; }
  void on_invalid_frame(const nghttp2_frame& frame);
  // A list of fields is several times as large as it may be.
  int on_huge_list();
  int on_data_frame(const std::uint8_t* header, std::size_t length);
  void on_stream_closed(Stream& stream, std::uint32_t error_code);
  // Ignored bytes count as used, else the connection's window would run dry.
  void consume(std::size_t bytes) { nghttp2_session_consume_connection(session(), bytes); }

 private:
  enum class State : std::uint8_t {
    kServing,    // New streams are welcome.
    kDraining,   // The shutdown notice is out; streams that cross it are served until the final
                 // GOAWAY.
    kEnding,     // The final GOAWAY is out or on its way; closes when streams and output are done.
    kLingering,  // Our side is shut; waits for the peer's end, so that no reset overtakes what was
                 // sent.
    kClosed,     // Waits for the kernel to let go of the operations, then is destroyed.
  };
  struct SendOperation : io::Operation {
    SendOperation(Complete complete, Connection& c) : Operation(complete), connection(c) {}
    Connection& connection;
  };
  struct Receive : io::ReceiveState {
    Receive(io::Receiver& receiver, Stopped stopped, Connection& c)
        : ReceiveState(receiver, stopped), connection(c) {}
    Connection& connection;
  };
  struct Tick : io::Timer {
    Tick(Fire fire, Connection& c) : Timer(fire), connection(c) {}
    Connection& connection;
  };
  struct Task : TurnTask {
    Task(Run run, Connection& c) : TurnTask(run), connection(c) {}
    Connection& connection;
  };
  ~Connection() = default;

  // connection.cc: input and life.
  void on_received(std::span<const std::byte> data) override;
  void on_receive_error(int errno_value) override;
  void feed(std::span<const std::byte> data);
  bool pass_on(std::span<const std::byte> data);
  int judge(const FrameScanner::Frame& frame);
  void on_turn();
  void begin_drain();
  void finish_drain();
  void lose_streams(const Error& error);
  void count_request();
  void fail(int library_error);
  void give_up(std::uint32_t error_code);
  void linger();
  void shut(const Error& error);
  void release_if_idle();
  // The descriptor's, or those of the TLS stream on it.
  void receive() {
    if (tls_ != nullptr) return tls_->stream.receive(receive_);
    services_.loop.receive(fd_, receive_);
  }
  void receive_stop() {
    if (tls_ != nullptr) return tls_->stream.receive_stop(receive_);
    services_.loop.receive_stop(receive_);
  }
  void receive_idle() {
    if (tls_ != nullptr) return tls_->stream.receive_idle(receive_);
    services_.loop.receive_idle(receive_);
  }
  // output.cc: framing and sending.
  void pump();
  int fill_output();
  bool announce();
  bool output_full() const;
  void send();
  void on_sent(int result);
  void retire_streams();
  // timeouts.cc
  void on_tick();
  bool check_connection();
  Milliseconds idle_timeout() const;
  Milliseconds next_deadline();
  void set_active(bool active);

  bool abuse(Budget& budget, std::uint32_t tokens);
  int violate(std::uint32_t error_code, const char* what, std::int32_t stream_id);
  bool is_late(std::int32_t stream_id);
  void forgive_late() {
    late_until_ms_ = now_ms() + kLateFramesMs;
    late_bytes_ = 0;
  }
  int on_priority_update(const nghttp2_frame& frame);
  bool has_early_priority(std::int32_t stream_id) const;
  bool idle() const { return open_streams_ == 0 && output_.empty(); }

  int fd_;
  std::unique_ptr<proto::TlsChannel> tls_;
  State state_ = State::kServing;
  http::ConnectionInfo info_;
  http::Services& services_;
  const http::CoreSettings& settings_;  // Of the endpoint's default site.
  const Settings& h2_settings_;         // The same site's.
  Memory memory_;
  nghttp2_session* session_ = nullptr;
  FrameScanner scanner_;
  SegmentQueue output_;
  List<Stream, StreamTag> streams_;    // Open ones.
  List<Stream, StreamTag> finishing_;  // Closed; their last bytes are in the output.
  List<Stream, PendingTag> pending_;
  // One frame is made at a time, in one call of the library's, so one serves all connections.
  struct Frame {
    std::array<Segment, kFrameSegmentsMax> segments;
    std::size_t count = 0;
  };
  static Frame frame_;
  Stream* header_stream_ = nullptr;
  std::uint32_t open_streams_ = 0;
  std::uint32_t alive_streams_ = 0;  // Not yet destroyed.
  std::int32_t last_stream_id_ = 0;  // The highest that the client has used.
  // What the client did wrong that the library would let pass; NGHTTP2_NO_ERROR: nothing.
  std::uint32_t violation_ = NGHTTP2_NO_ERROR;
  // Streams to come that a PRIORITY_UPDATE frame has spoken of; the oldest is forgotten.
  std::array<std::int32_t, 8> early_priorities_{};
  std::uint8_t early_at_ = 0;
  // Streams that the peer opened and abandoned, or made us reset: real work for nothing. A page's
  // worth at once is normal.
  Budget resets_{200, 20};
  // Frames that cost an answer or a look and carry nothing.
  Budget control_{1000, 100};
  Milliseconds begun_ms_ = 0;
  Milliseconds idle_since_ms_ = 0;
  Milliseconds send_since_ms_ = 0;
  Milliseconds headers_since_ms_ = -1;  // A header block has begun and not ended.
  std::uint32_t late_bytes_ = 0;
  Milliseconds late_until_ms_ = 0;  // See kLateFramesMs.
  Milliseconds final_goaway_ms_ = 0;
  Milliseconds linger_until_ms_ = 0;
  std::size_t lingered_bytes_ = 0;
  std::uint64_t head_bytes_ = 0;  // Frames of the header block that comes in, as received.
  bool preface_seen_ = false;
  bool abusive_ = false;
  bool drain_asked_ = false;
  bool close_asked_ = false;
  bool peer_gone_ = false;
  bool settled_ = false;  // The turn's work has been put off once, see on_turn().
  bool active_ = false;   // Counted as writing, not as waiting.
  bool poll_only_ = false;
  Error lost_{Code::kReset, Party::kClient, 0, "client connection"};
  SendOperation send_;
  Receive receive_;
  Tick tick_;
  Task turn_;
  Task destroy_;
};

}  // namespace corehttpd::h2
