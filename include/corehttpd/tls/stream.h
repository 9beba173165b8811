// TLS between a socket and the protocol above it: offers what the loop offers for a socket, with
// the plain bytes. Records go through the library without its buffers: what the loop received is
// read in place, what is to be sent is gathered in blocks and leaves in one send.
//
// A stream belongs to whoever serves its connection; the descriptor stays that one's too.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/arena.h"
#include "corehttpd/io/layer.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/tls/store.h"

namespace corehttpd::tls {

// What the site that a client has named serves with.
struct Choice {
  const SitePolicy* policy = nullptr;  // nullptr: the handshake is refused (unrecognized_name).
  bool http2 = false;                  // May be agreed on.
};

struct HandshakeFailure {
  std::string text;    // "SSL_do_handshake() failed (SSL: …)"; as nginx says it.
  bool client = true;  // The client's fault, or its way of leaving.
};

// Whom a stream asks and tells while it shakes hands. The calls that end it are the last ones.
class HandshakeOwner {
 public:
  // name: of the server, lower case, without a trailing dot; empty: none was sent.
  virtual Choice choose(std::string_view name) = 0;
  virtual void on_handshake_done() = 0;
  virtual void on_handshake_failed(const HandshakeFailure& failure) = 0;
  // The client speaks no TLS. Nothing is pending any more; received() is what it has sent.
  virtual void on_plain_text() = 0;

 protected:
  ~HandshakeOwner() = default;
};

class Stream final : private io::Layer, private io::Receiver {
 public:
  // Of plain text taken with one send(); what it becomes is what a slow client costs.
  static constexpr std::size_t kSendMax = 64 * 1024;
  // Encrypted bytes on their way; what send() leads to stays well below.
  static constexpr std::size_t kOutputMax = 256 * 1024;
  // What is kept of a client that goes on sending while its handshake is in Offload.
  static constexpr std::size_t kLaterMax = 64 * 1024;

  // fd: connected, non-blocking. loop and store must outlive the stream.
  Stream(int fd, io::Loop& loop, const Store& store, HandshakeOwner& owner);
  // Only when close() has said so.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Begins to shake hands.
  void start();
  std::span<const std::byte> received() const { return held_; }

  // --- After the handshake, as io::Loop has them for the descriptor.
  void receive(io::ReceiveState& state);
  void receive_stop(io::ReceiveState& state);
  void receive_idle(io::ReceiveState& state);
  void send(std::span<const iovec> data, bool more, io::Operation& operation);
  void cancel(io::Operation& operation);

  // Says that no more will be sent (close_notify), then shuts the socket's side down.
  void shut_down_sending();
  // True when nothing is pending: the stream may be destroyed and the descriptor be closed. Else
  // all is cancelled, and done is posted when that has become true. Says goodbye (close_notify)
  // when that is possible without waiting; a connection whose requests came all as early data gets
  // a moment for the end of its handshake, else the client's last message would meet a closed
  // socket, and the reset take the response from it.
  bool close(TurnTask& done);

  // "h2", "http/1.1" or nothing.
  std::string_view protocol() const { return alpn_; }
  std::string_view server_name() const { return server_name_; }
  // A variable of nginx's, "ssl_cipher"; nothing when there is no such value. Text lives in arena
  // or as long as the stream. After the handshake.
  std::optional<std::string_view> fact(std::string_view name, Arena& arena) const;
  // The handshake is not done yet: what has come may be a copy of what another has sent before.
  bool early() const { return early_ == Early::kReading || early_ == Early::kConfirming; }
  // The client's certificate: none was shown, it is good, it is not.
  enum class ClientCertificate : std::uint8_t { kNone, kGood, kBad };
  ClientCertificate client_certificate() const;
  // Why nothing more can be read, as nginx says it; empty: the client's bytes were in order.
  std::string_view problem() const { return problem_ == nullptr ? std::string_view() : *problem_; }
  // Why it is bad, in the library's words.
  const char* client_certificate_problem() const;

 private:
  enum class State : std::uint8_t {
    kHello,  // No byte has come yet.
    kHandshake,
    kOffloaded,  // A thread has the library's object; nothing here touches it.
    kPlain,      // The client speaks no TLS: waiting for the receive to stop.
    kOpen,
    kFailed,  // Nothing can be read or sent any more.
  };
  enum class Early : std::uint8_t {
    kNone,        // Of this connection none is taken, or it is all over.
    kTrying,      // Handshakes begin by asking for it.
    kReading,     // It comes; the protocol is at work already.
    kConfirming,  // It has ended, the handshake is being completed.
  };
  // What a step of the handshake led to.
  struct Step {
    int result = 0;  // 1: it is done. 2: early data has come.
    int error = 0;   // Of the library, when result is 0.
    std::string reason;
    std::size_t bytes = 0;  // Of early data.
  };
  struct Finishing : io::Timer {
    explicit Finishing(Stream& s)
        : Timer([](io::Timer& timer) { static_cast<Finishing&>(timer).stream.end_finishing(); }),
          stream(s) {}
    Stream& stream;
    bool on = true;
  };
  struct SendOperation : io::Operation {
    SendOperation(Complete complete, Stream& s) : Operation(complete), stream(s) {}
    Stream& stream;
  };
  struct Receive : io::ReceiveState {
    Receive(io::Receiver& receiver, Stopped stopped, Stream& s)
        : ReceiveState(receiver, stopped), stream(s) {}
    Stream& stream;
  };
  struct Task : TurnTask {
    Task(Run run, Stream& s) : TurnTask(run), stream(s) {}
    Stream& stream;
  };
  struct HandshakeTask final : io::OffloadTask {
    explicit HandshakeTask(Stream& s) : stream(s) {}
    void run() noexcept override;
    void done() override;
    Stream& stream;
    Step step;
    std::vector<std::byte> output;
  };
  friend struct StreamCallbacks;

  void on_received(std::span<const std::byte> data) override;
  void on_receive_error(int errno_value) override;
  void on_turn();
  void on_stopped();
  bool idle() const;
  void tell_idle();

  // stream_handshake.cc
  void begin_plain();
  void shake_hands();
  Step step(std::span<std::byte> early);
  void judge_handshake(Step step);
  void open();
  void begin_early(std::span<const std::byte> data);
  bool read_early(std::span<std::byte> plain);
  bool finishing() const { return finishing_ != nullptr && finishing_->on; }
  void begin_finishing();
  void finish_early();
  void end_finishing();
  void offload();
  void on_offload_done();
  void finish_handshake();
  void fail_handshake(std::string text, bool client);
  int on_client_hello(int* alert);
  bool apply(const SitePolicy& policy);
  // The certificates of the site, in the order in which the library is to see them.
  template <class Function>
  void each_credential(const Function& function) const;
  void use_certificates();

  // stream.cc: input
  void decrypt();
  void end_input(int errno_value);
  void tell_end();
  void fail_input(const char* call);
  void keep_input();
  // stream_send.cc
  void encrypt(std::span<const iovec> data, std::size_t skip);
  bool write_record(const std::byte* bytes, std::size_t length);
  std::size_t record_size();
  void flush();
  void on_sent(int result);
  int take_report();
  void say_goodbye();
  void send_now(int flags = 0);

  // The library's side (bio.cc).
  std::size_t take_input(std::byte* into, std::size_t length);
  bool put_output(const std::byte* from, std::size_t length);

  // Encrypted bytes on their way out.
  class Output {
   public:
    bool append(std::span<const std::byte> bytes, BlockPool& blocks);
    std::size_t gather(std::span<iovec> into) const;
    void consume(std::size_t count);
    bool empty() const { return bytes_ == 0; }
    std::size_t bytes() const { return bytes_; }
    void clear();
    // The list's own memory, which empty output keeps for the next.
    void release_storage();

   private:
    std::vector<BlockRef> blocks_;
    std::size_t first_ = 0;  // Offset of the first byte in the first block.
    std::size_t end_ = 0;    // End of the last byte in the last block.
    std::size_t bytes_ = 0;
  };

  io::Loop& loop_;
  const Store& store_;
  HandshakeOwner* owner_;
  const SitePolicy* policy_ = nullptr;
  ssl_st* ssl_ = nullptr;
  io::ReceiveState* user_ = nullptr;
  io::Operation* operation_ = nullptr;
  TurnTask* when_closed_ = nullptr;
  std::span<const std::byte> input_;  // Within on_received(): what the library has not read yet.
  std::vector<std::byte> held_;       // What came while nobody could take it; before input_.
  std::size_t held_used_ = 0;
  std::vector<std::byte> later_;  // What came while a thread had the library's object.
  Output output_;
  std::string server_name_;
  std::string_view alpn_;
  // Of plain text that has been encrypted: not yet reported as sent, and the place in the output
  // where it ends.
  std::uint64_t unreported_ = 0;
  std::uint64_t appended_ = 0;  // Encrypted bytes ever queued, ever sent.
  std::uint64_t sent_ = 0;
  std::uint64_t mark_ = 0;
  std::uint64_t span_plain_ = 0;  // unreported_ and the bytes up to mark_ when that was set.
  std::uint64_t span_cipher_ = 0;
  Milliseconds last_record_ms_ = 0;
  std::uint32_t small_records_ = 0;  // Since the last pause.
  int fd_;
  int send_error_ = 0;
  State state_ = State::kHello;
  Early early_ = Early::kNone;
  bool http2_ = false;
  bool unnamed_ = false;   // No certificate is for the name that was asked for.
  bool slow_key_ = false;  // Of a certificate that was chosen: handshakes go to Offload.
  bool more_ = false;
  bool ended_ = false;  // The peer has ended its side; end_errno_ is how.
  bool end_told_ = false;
  int end_errno_ = 0;
  bool closing_ = false;
  bool stop_asked_ = false;
  bool goodbye_said_ = false;
  bool shutdown_due_ = false;
  bool shutdown_waits_ = false;  // For the end of the handshake: before it nothing ends in order.
  bool cancelled_ = false;
  SendOperation send_;
  Receive receive_;
  Task turn_;
  std::unique_ptr<std::string> problem_;  // Rare, so that it costs others no more than a pointer.
  std::unique_ptr<Finishing> finishing_;
  std::unique_ptr<HandshakeTask> task_;  // Made when it is needed.
};

}  // namespace corehttpd::tls
