// One exchange and the origin it is passed to: the gateway's state machine. On the heap with a life
// of its own, because an origin may have to be heard out when the exchange is gone. All operations
// of the kernel are OriginConnection's and SpoolFile's, which outlive it if they must.
//
//   gateway_request.cc    attempts, failures, the end
//   gateway_connect.cc    servers, places, connections
//   gateway_send.cc       the request on its way to the origin
//   gateway_receive.cc    the origin's answer on its way to the spool
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/http/exchange.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/upstream/attempts.h"
#include "corehttpd/upstream/gateway.h"
#include "upstream/backends.h"
#include "upstream/block_queue.h"
#include "upstream/dynamic_servers.h"
#include "upstream/origin_connection.h"
#include "upstream/response_head.h"
#include "upstream/response_policy.h"
#include "upstream/response_spool.h"

namespace corehttpd::upstream {

class GatewayRequest final : private OriginConnection::User,
                             private Backend::Waiter,
                             private NameWaiter,
                             private DynamicServers::Waiter,
                             private ResponseSpool::Owner,
                             private http::RequestBody::Waiter,
                             private http::BodySink {
 public:
  static http::StepOutcome start(http::Exchange& exchange, const GatewayPass& pass);

 private:
  enum class State : std::uint8_t {
    kReadingRequest,  // The request's body is being buffered; no origin is concerned yet.
    kResolving,       // The addresses of the servers are being looked up.
    kQueued,          // All places of the chosen server are taken; one is waited for.
    kConnecting,      // A connection to a server is being made.
    kSending,         // Head and body are on their way; an answer may come already.
    kReadingHead,     // All is sent (or no more is taken); the response's head has not come.
    kReadingBody,     // The head is known; the body goes to the spool.
    kDraining,  // Nobody wants the answer; it is read to its end so that the script may finish.
    kDone,      // No origin is concerned any more.
  };
  struct Hook : http::AbortHook {
    Hook(OnAbort on_abort, GatewayRequest& owner) : http::AbortHook(on_abort), request(owner) {}
    GatewayRequest& request;
  };
  struct Timer : io::Timer {
    Timer(Fire fire, GatewayRequest& owner) : io::Timer(fire), request(owner) {}
    GatewayRequest& request;
  };
  struct Destroy : TurnTask {
    Destroy(Run run, GatewayRequest& owner) : TurnTask(run), request(owner) {}
    GatewayRequest& request;
  };

  GatewayRequest(http::Exchange& exchange, const GatewayPass& pass);
  ~GatewayRequest();

  // --- gateway_request.cc
  http::StepOutcome begin();
  // The attempt came to nothing: why is the bit of next_upstream that covers it, status what the
  // client gets if no other server is asked. The reason has been logged.
  void attempt_failed(NextUpstream why, std::uint16_t status);
  bool may_retry(NextUpstream why) const;
  bool may_omit_length() const;
  // Tells the exchange how it goes on. Once.
  void conclude(http::StepOutcome outcome);
  // The origin is done with, well or not.
  void end_attempt();
  void client_gone();
  void exchange_gone();
  void begin_draining(bool bounded);
  void finish_if_unused();
  const GatewaySettings& settings() const { return *pass_.settings; }
  Milliseconds now_ms() const { return loop_.clock().now_ms(); }
  // "reading response header from upstream": what the origin was needed for, for logs.
  std::string_view doing() const;
  std::string about_backend(std::string_view hint) const;
  std::string about_time(std::string_view directive, Milliseconds value) const;
  template <class... A>
  void log(LogLevel level, fmt::format_string<A...> format, A&&... arguments) const {
    if (exchange_ != nullptr) exchange_->log(level, 0, format, std::forward<A>(arguments)...);
  }
  // "(110: Connection timed out)".
  static std::string errno_text(int errno_value);

  // --- gateway_connect.cc
  void begin_attempt();
  bool find_servers();
  void use_servers();
  void use_name(const NameAnswer& answer);
  void on_name(const NameAnswer& answer) override;
  void on_servers() override;
  void resolve_timed_out();
  void stop_resolving();
  void choose_local_address();
  void no_live_upstreams();
  void record_attempt(std::string_view address);
  void obtain_connection();
  void prepare_sending();
  void open_connection();
  void adopt_connection(OriginConnection& connection);
  void on_place(OriginConnection* connection) override;
  void queue_full();
  void queue_timed_out();
  void give_up_waiting();
  bool wait_alone();
  bool retry_over_fresh(int errno_value);
  void let_go_of_connection();
  Milliseconds queue_timeout() const;
  OriginConnection::Options connection_options() const;

  // --- gateway_send.cc
  void on_body(std::uint16_t status) override;
  void on_data(std::span<const std::byte> bytes, bool last) override;
  void on_error(const Error& error) override;
  void on_connected() override;
  void on_connect_failed(int errno_value) override;
  void on_drained() override;
  void on_send_failed(int errno_value) override;
  void send_more();
  bool next_piece();
  void request_sent();
  bool hold_request_body();

  // --- gateway_receive.cc
  void on_received(std::span<const std::byte> bytes) override;
  void on_receive_failed(int errno_value) override;
  void on_origin_closed(int errno_value);
  void handle(const OriginEvent& event);
  void on_output(std::span<const std::byte> bytes);
  void on_body_bytes(std::span<const std::byte> bytes);
  void on_head();
  bool on_informational(const OriginHead& head);
  void on_malformed_head();
  void on_output_end();
  void on_end();
  void on_diagnostics(std::span<const std::byte> bytes, bool last);
  void flush_diagnostics();
  void accept_head(const AccelOrders& orders);
  void respond();
  void on_read_timer();
  void on_rate_timer();
  void keep_to_rate();
  void note_pressure();
  void arm_read_timer();
  void on_spool_ready() override;
  void on_spool_room() override;
  void on_spool_to_file() override;
  void on_spool_file_error(const char* operation, int errno_value) override;
  void on_spool_cancelled() override;

  http::Exchange* exchange_;  // nullptr as soon as it is over.
  io::Loop& loop_;
  const GatewayPass pass_;
  State state_ = State::kReadingRequest;
  Hook abort_hook_;
  Timer read_timer_;
  Timer rate_timer_;  // Scheduled: reading pauses for limit_rate.
  Destroy destroy_;
  bool starting_ = true;  // Within start(): outcomes are returned, not resumed with.
  std::optional<http::StepOutcome> early_outcome_;
  bool concluded_ = false;
  bool arena_gone_ = false;

  // The servers.
  const Group* group_;                          // nullptr: not known yet.
  DynamicServers::Version* version_ = nullptr;  // group_ belongs to it.
  PeerSelector selector_;
  const Peer* peer_ = nullptr;  // Of the attempt, as long as there is an exchange.
  const io::Address* bind_ = nullptr;
  std::unique_ptr<io::Address> held_address_;  // The peer's, for an attempt without an exchange.
  Backend* backend_ = nullptr;
  const Group* keeper_ = nullptr;  // Keeps the connection when it is not needed any more.
  bool has_place_ = false;         // At backend_; to be given back.
  bool keep_ = false;              // The origin was asked to leave the connection open.
  bool reused_ = false;            // The connection carried other requests before.
  bool retried_ = false;           // A new connection was closed unread already.
  bool reusable_ = false;          // It may carry others: ours has ended in good order.
  std::size_t input_left_ = 0;     // Bytes received behind the event being handled.
  OriginConnection* connection_ = nullptr;
  OriginCodec* codec_ = nullptr;  // In codec_storage_.
  alignas(std::max_align_t) std::array<std::byte, OriginProtocol::kCodecBytes> codec_storage_;
  Attempts* attempts_ = nullptr;  // The exchange's.
  Attempt* attempt_ = nullptr;
  Milliseconds first_attempt_ms_ = 0;

  // The request.
  Segment head_;
  std::uint64_t body_bytes_ = 0;
  http::BodySource* body_reader_ = nullptr;  // In the exchange's arena.
  std::vector<Segment> held_body_;           // Taken over from it when the exchange went away.
  std::size_t held_next_ = 0;
  Segment piece_;            // Of the body, not yet framed as a whole.
  bool body_taken_ = false;  // piece_ is the last.
  bool end_queued_ = false;
  bool abandoned_ = false;  // The client has left before the answer was there.
  bool send_over_ = false;  // All sent, or the origin takes no more.
  int send_error_ = 0;
  // A streamed upload (request_buffering off).
  bool streaming_ = false;
  bool stream_begun_ = false;
  bool upload_complete_ = false;
  BlockQueue upload_;
  std::size_t upload_credit_due_ = 0;

  // The response.
  std::optional<ResponseHeadReader> head_reader_;
  std::uint64_t rate_ = 0;  // Bytes per second; 0: no limit.
  Milliseconds rate_since_ms_ = 0;
  bool respond_due_ = false;  // The head is accepted; what came with it is appended first.
  bool responded_ = false;
  bool spooled_ = false;  // It was logged that a temporary file is used.
  ResponseSpool spool_;
  std::uint64_t drained_bytes_ = 0;
  std::uint64_t drain_max_ = UINT64_MAX;
  BlockRef diagnostics_;
  std::size_t diagnostics_bytes_ = 0;
};

bool is_idempotent(http::Method method);

}  // namespace corehttpd::upstream
