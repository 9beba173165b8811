// A client's connection that speaks HTTP/1. Owns its descriptor, destroys itself.
//
//   connection.cc  life: what happens next, waiting times, closing
//   ingress.cc     bytes from the client: heads, bodies, what is read past
//   egress.cc      bytes to the client: gathering what requests produced, accounting what was sent
//
// Requests are served one after the other. One whose response is complete and queued makes way for
// the next pipelined one before it has been sent, so that the answers of a turn leave in one send.
// Calls of an exchange only mark its request; advance() looks at the marks, at once when the call
// came from within it, else at the end of the turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/services.h"
#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h1/context.h"
#include "proto/h1/head_parser.h"
#include "proto/h1/input_buffer.h"
#include "proto/h1/request.h"
#include "proto/tls_channel.h"

namespace corehttpd::h1 {

class Connection final : public io::Receiver,
                         public proto::LiveConnection,
                         // What the loop needs of us are bases rather than members: so each call
                         // back finds the connection without a pointer of its own, which counts for
                         // connections that are idle by the ten thousand.
                         private io::ReceiveState,
                         private io::Operation,
                         private io::Timer,
                         private TurnTask {
 public:
  // What an idle connection costs in user memory, malloc's own part included, is at most 400 bytes.
  static constexpr std::size_t kBytesMax = 400 - sizeof(void*);
  // Requests whose responses are on their way at one time. Bounded also by what one gathered send
  // can hold.
  static constexpr std::size_t kQueueMax = 8;
  // Received bytes kept for later; above this the receive is stopped. A head that is not complete
  // yet has its own limit.
  static constexpr std::size_t kInputHigh = 16 * 1024;
  // An idle connection gives up its armed receive after this time (858 bytes of kernel memory
  // become 247).
  static constexpr Milliseconds kIdleSwap = 10'000;
  // While draining, idle connections get at most this time for a last request.
  static constexpr Milliseconds kDrainIdle = 10'000;

  // Serves HTTP/1 on fd (non-blocking, connected) and closes it in the end. context must outlive
  // the connection. A client that begins with the HTTP/2 preface is handed to h2, if the endpoint
  // allows it.
  // tls: what it speaks through; nullptr: in clear. received: what has been read of it already.
  static void serve(int fd, const http::ConnectionInfo& info, Context& context,
                    std::unique_ptr<proto::TlsChannel> tls = {},
                    std::span<const std::byte> received = {});

  // io::Receiver.
  void on_received(std::span<const std::byte> data) override;
  void on_receive_error(int errno_value) override;
  // proto::LiveConnection.
  void drain() override;
  void close_now() override;

  // --- For requests.
  // A request has changed: look at it.
  void poke();
  // May another request follow the one of exchange, as far as the connection is concerned?
  bool may_persist(const http::Exchange& exchange, const http::CoreSettings& settings) const;
  // The settings of a request's location, some of which hold after its end. They must live as long
  // as the configuration.
  void remember(const http::CoreSettings& settings) { last_settings_ = &settings; }
  bool has_input() const { return !input_.empty() || !received().empty(); }
  const http::ConnectionInfo& info() const { return info_; }
  bool over_tls() const { return info_.tls != nullptr; }
  Context& context() const { return context_; }

 private:
  enum class State : std::uint8_t {
    kOpen,         // Reading, serving, sending or idle.
    kHandingOver,  // It speaks HTTP/2: waiting for the receive to stop.
    kLingering,  // All is sent and our side is shut down; what the client still sends is read past,
                 // lest a reset destroys the answer.
    kClosing,    // Waiting for the kernel to let go of operations.
    kClosed,     // Destroyed at the end of the turn.
  };
  // What the deadline is for.
  enum class Wait : std::uint8_t {
    kNothing,    // The exchange is at work; its own limits hold.
    kFirstByte,  // client_header_timeout, nothing came yet.
    kHead,       // client_header_timeout.
    kBody,       // client_body_timeout, between two reads.
    kSend,       // send_timeout, between two sends.
    kIdle,       // keepalive_timeout.
    kDiscard,  // lingering_timeout within lingering_time, for the rest of a body that nobody wants.
    kLinger,   // The same after our side was shut down.
  };
  static constexpr Milliseconds kNever = INT64_MAX;
  static constexpr int kRoundsMax = 64;

  Connection(int fd, const http::ConnectionInfo& info, Context& context,
             std::unique_ptr<proto::TlsChannel> tls);
  ~Connection() { delete tls(); }

  io::ReceiveState& receive_state() { return *this; }
  io::Operation& send_operation() { return *this; }
  io::Timer& timer() { return *this; }
  TurnTask& task() { return *this; }
  // What the connection speaks through, and owns; nullptr: in clear. Requests know it by info().
  proto::TlsChannel* tls() const {
    return static_cast<proto::TlsChannel*>(const_cast<http::TlsInfo*>(info_.tls));
  }
  // The descriptor's, or those of the TLS stream on it.
  void receive() {
    if (over_tls()) return tls()->stream.receive(receive_state());
    loop().receive(fd_, receive_state());
  }
  void receive_stop() {
    if (over_tls()) return tls()->stream.receive_stop(receive_state());
    loop().receive_stop(receive_state());
  }
  void receive_idle() {
    if (over_tls()) return tls()->stream.receive_idle(receive_state());
    loop().receive_idle(receive_state());
  }
  void send(std::span<const iovec> vectors, bool more) {
    if (over_tls()) return tls()->stream.send(vectors, more, send_operation());
    loop().send(fd_, vectors, more, send_operation());
  }
  void cancel_send() {
    if (over_tls()) return tls()->stream.cancel(send_operation());
    loop().cancel(send_operation());
  }

  // connection.cc
  void on_turn();
  void advance();
  void step();
  void abandon(Request& request);
  void settle();
  void steer_receive();
  void enter_idle();
  Milliseconds drain_idle() const;
  void wait_for(Wait wait, Milliseconds timeout, bool progress);
  void wait_for_rest(Wait wait);
  void arm_timer(Milliseconds at_ms);
  void on_timer();
  void expire();
  void set_activity(http::Counters::Activity activity);
  void finish();
  void lose(const Error& error);
  void begin_close();
  void on_stopped();
  void continue_close();
  void close_socket();
  void destroy_at_end_of_turn();
  void log_info(const char* what) const;
  io::Loop& loop() const { return context_.services.loop; }
  Milliseconds now() const { return context_.services.clock.now_ms(); }

  // ingress.cc
  // Within on_received(): what is not consumed yet, when input_ is empty.
  std::span<const std::byte> received() const {
    return context_.receiving.connection == this ? context_.receiving.rest
                                                 : std::span<const std::byte>();
  }
  void drop_received() {
    if (context_.receiving.connection == this) context_.receiving.rest = {};
  }
  std::span<const std::byte> input() const { return input_.empty() ? received() : input_.view(); }
  void consume_input(std::size_t count);
  bool keep_rest();
  void discard_input();
  bool begin_request();
  bool is_http2_preface(std::string_view text, bool& undecided) const;
  void start_request(std::string_view head, const HeadLimits& limits);
  void refuse_head(std::uint16_t status, const char* problem);
  void feed_body(Request& request);
  bool feed_length(Request& request, std::span<const std::byte> bytes);
  bool feed_chunked(Request& request, std::span<const std::byte> bytes);
  void begin_handover();
  void hand_over();

  // egress.cc
  void flush();
  bool ends_with_this_send();
  void on_send_complete(int result);
  void retire();

  // The request that is being served or whose body is read: the last of requests_; nullptr: none.
  Request* current() { return serving_ ? &requests_.back() : nullptr; }

  // Connections that are idle make up most of a busy server's memory: mind sizeof (a test does).
  Context& context_;
  const http::CoreSettings& settings_;       // Of the endpoint's default site: for reading heads.
  const http::CoreSettings* last_settings_;  // Of the last request: what matters after its end.
  http::ConnectionInfo info_;
  List<Request, QueueTag> requests_;  // In the order of their responses.
  InputBuffer input_;
  HeadScanner scanner_;
  std::uint32_t rest_until_ms_ = 0;  // lingering_time's end, counted from accepted_ms.
  Milliseconds deadline_ms_ = kNever;
  int fd_;
  std::uint8_t request_count_ = 0;  // Of requests_.
  State state_ = State::kOpen;
  Wait wait_ = Wait::kNothing;
  http::Counters::Activity activity_ = http::Counters::Activity::kWaiting;
  bool serving_ : 1 = false;
  bool end_of_input_ : 1 = false;  // The client has shut down its side.
  // No request is read any more; the connection ends when the queue is empty.
  bool last_request_ : 1 = false;
  // Bytes came, or may still come, that we don't read: close with care.
  bool unread_input_ : 1 = false;
  bool client_ends_ : 1 = false;  // It said that nothing follows its request, which has no body.
  bool running_ : 1 = false;
  bool dirty_ : 1 = false;
  bool read_progress_ : 1 = false;  // Since the last settle().
  bool send_progress_ : 1 = false;
  bool swapped_ : 1 = false;  // The receive is an idle poll.
  bool reset_on_close_ : 1 = false;
  bool stop_asked_ : 1 = false;
};

}  // namespace corehttpd::h1
