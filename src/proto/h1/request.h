// One request on its way through a connection: the exchange and its transport, what is left of the
// request body, and what the response has produced. Several exist at a time when a client
// pipelines: the last is being served, those before it wait for the socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "corehttpd/base/list.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/transport.h"
#include "corehttpd/io/loop.h"
#include "proto/h1/chunked.h"
#include "proto/h1/head_parser.h"
#include "proto/h1/output_queue.h"
#include "proto/rate_pacer.h"

namespace corehttpd::h1 {

class Connection;

struct QueueTag {};

// The request body as the connection reads it.
struct IncomingBody {
  BodyFraming framing = BodyFraming::kNone;
  bool done = true;           // All of it was read, or it broke off.
  bool granted = false;       // Somebody has asked for it.
  bool continue_due = false;  // The client waits for 100 (Continue), which was not sent.
  std::uint64_t left = 0;     // kLength: bytes still to come.
  std::uint64_t credit = 0;   // Bytes that the sink has asked for and not got.
  ChunkedDecoder chunks;
};

// The response body as it is framed.
enum class ResponseFraming : std::uint8_t {
  kNone,    // No body.
  kLength,  // Cut at Content-Length; a shorter one ends the connection.
  kChunked,
  kClose,  // Ends with the connection.
};

class Request final : public http::Transport, public ListHook<QueueTag>, public TurnTask {
 public:
  static constexpr std::size_t kOutputHigh =
      128 * 1024;  // Memory queued above this: sources are not read.
  static constexpr std::size_t kReadBytesMax =
      1024 * 1024;  // Asked of a source in one go; in practice this is a file window.
  static constexpr std::size_t kReadSegmentsMax = 8;

  explicit Request(Connection& connection);

  // http::Transport.
  void send_informational(std::uint16_t status, const http::FieldList& fields) override;
  void send_head(const http::ResponseHead& head, http::BodySource* body) override;
  void body_ready() override;
  void grant(std::size_t bytes) override;
  void reset(const Error& error) override;
  const http::ConnectionInfo& connection() const override;

  // --- For the connection.
  // Reads from the source what the output queue has room for. Sets failure when the source failed.
  void pull();
  // Moves what was sent out of the queue and accounts for it; returns the bytes that belong to
  // later requests.
  std::size_t take_sent(std::size_t bytes);
  // Nobody wants (the rest of) the request body: it is read past.
  bool discarding() {
    using State = http::RequestBody::State;
    const State state = exchange.body().state();
    return logged || state == State::kDiscarded || state == State::kFailed;
  }
  // The client owes us bytes that somebody is waiting for.
  bool awaiting_body() { return !body.done && body.credit != 0 && !discarding(); }
  // Tells the sink that nothing more will come, unless nobody listens.
  void break_body(const Error& error);

  http::Exchange exchange;
  IncomingBody body;
  OutputQueue output;
  std::optional<Error> failure;  // The stream is to end at once.
  bool keep_alive = false;       // Another request may follow on the connection.
  bool produced = false;         // The whole response is in the queue, or was.
  bool logged = false;           // The exchange is over.

 private:
  void choose_framing(const http::ResponseHead& head, const http::CoreSettings& settings);
  void queue_head(const http::ResponseHead& head, const http::CoreSettings& settings);
  bool read_once();
  void queue_body(std::span<Segment> segments, std::size_t bytes, bool last);
  Segment chunk_frame(std::size_t bytes, bool last);
  void close_chunk();
  void end_body(http::Next next);
  std::size_t paced(std::size_t wanted);

  // Wakes a response that limit_rate holds back.
  struct PaceTimer : io::Timer {
    PaceTimer(Fire fire, Request& the_request) : io::Timer(fire), request(the_request) {}
    Request& request;
  };
  Connection& connection_;
  http::BodySource* source_ = nullptr;
  std::uint64_t length_left_ = 0;  // kLength: of the response body.
  std::uint64_t head_unsent_ = 0;  // Of the queue's front: bytes that are head, not body.
  proto::RatePacer pacer_;
  PaceTimer pace_timer_;
  BlockRef frames_;  // Where chunk sizes are written.
  std::uint32_t frames_used_ = 0;
  ResponseFraming framing_ = ResponseFraming::kNone;
  bool head_queued_ = false;
  bool blocked_ = false;     // The source has nothing now.
  bool chunk_open_ = false;  // The CRLF after the last chunk's data is still to be written.
  bool files_ = false;       // sendfile on.
  // Most heads fit; a longer one gets a block. Sent from here, so a request lives until its send
  // has completed.
  static constexpr std::size_t kHeadBytes = 1024;
  std::array<char, kHeadBytes> head_;
};

// Memory for requests, kept for the next ones.
class RequestPool {
 public:
  // Unused ones kept: enough for the requests of a busy turn.
  static constexpr std::size_t kFreeKept = 512;
  RequestPool() = default;
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;
  ~RequestPool();
  Request& make(Connection& connection);
  void destroy(Request& request);

 private:
  struct Free {
    Free* next;
  };
  Free* free_ = nullptr;
  std::size_t free_count_ = 0;
};

}  // namespace corehttpd::h1
