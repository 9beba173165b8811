// A loop without a kernel, for tests: sockets are byte queues, time is virtual, and everything that
// the kernel is free to do it does, chosen by a seeded generator: short reads and writes, late and
// reordered completions, resets, leaping clocks. The same seed and the same code give the same run.
//
// The code under test gets real descriptors (one end of a socket pair each), so that it may close,
// shut down and set options by plain system calls; a close or shutdown is noticed in the next turn.
// Data moves through the loop only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/io/loop.h"

namespace corehttpd::io {

class TimerWheel;
class SimLoop;

struct SimOptions {
  std::uint64_t seed = 1;
  bool short_transfers =
      true;  // Receives, sends and file windows move fewer bytes than they could.
  bool delays =
      true;  // Completions come up to some virtual milliseconds late, and in another order.
  unsigned resets_per_mille = 0;       // Of the transfers, this many find the connection reset.
  unsigned clock_leaps_per_mille = 0;  // Of the turns, this many begin with a leap of both clocks,
                                       // the wall clock's also backwards.
  // What the peer's side takes before sends wait for take().
  std::size_t window_bytes = 64 * 1024;
};

// The other end of a connection, in the hands of the test. Owned by the loop and valid as long as
// it.
class SimPeer {
 public:
  // The descriptor that the code under test has; -1 for one still waiting to be accepted.
  int fd() const { return fd_; }
  // Bytes for the code under test.
  void push(std::string_view bytes) { inbound_.append(bytes); }
  // No more bytes will come: it sees the end after what has been pushed.
  void finish() { finished_ = true; }
  // The connection is reset: its receives and sends fail, what is on the way is lost.
  void reset() { reset_ = true; }
  // What has arrived here, taken out, which makes room for more.
  std::string take();
  const std::string& arrived() const { return outbound_; }
  // It has closed or shut down its sending side (or its descriptor is closed).
  bool ended() const { return ended_; }
  // Nothing more can arrive here.
  bool was_reset() const { return reset_; }
  std::size_t pushed_and_not_received() const { return inbound_.size(); }
  // From now on sends wait while this many bytes are here untaken; 0 stalls them.
  void set_window(std::size_t bytes) { window_bytes_ = bytes; }

 private:
  friend class SimLoop;
  int fd_ = -1;
  int other_fd_ = -1;  // The real pair's other end, watched for a close.
  bool finished_ = false;
  bool reset_ = false;
  bool reset_told_ = false;
  bool ended_ = false;
  std::size_t window_bytes_ = 0;
  std::string inbound_;
  std::string outbound_;
};

class SimLoop final : public Loop {
 public:
  explicit SimLoop(const SimOptions& options);
  ~SimLoop() override;

  // A connection that is established already.
  SimPeer& connect_pair();
  // A descriptor for accept(); the caller closes it.
  int listen();
  // A client of listener, who may push at once. Its fd() is set when it has been accepted.
  SimPeer& connect_to(int listener);
  // Decides the fate of connect(): 0, or a negative errno. On 0 the connection's peer is
  // peer_of(fd) once connect() has completed. Without one every connect() is refused.
  void on_connect(std::function<int(const sockaddr*, socklen_t)> decide) {
    decide_connect_ = std::move(decide);
  }
  // nullptr: fd has never been a simulated connection.
  SimPeer* peer_of(int fd);

  // Turns until nothing can happen any more without the test's doing (timers included: time runs
  // ahead to them), or turns_max. False for the latter.
  bool run_until_quiet(int turns_max = 100'000);
  // The same, but time does not run ahead: armed timers stay armed, only late completions are
  // waited for.
  bool run_until_blocked(int turns_max = 100'000);
  // True after a run_once() that found nothing to do, now or later.
  bool quiet() const { return quiet_; }
  // Operations, receives and offloaded tasks that have been started and not completed, those that
  // wait for a peer included. 0 when everything has let go.
  std::size_t outstanding() const { return events_.size(); }
  // 0 to bound - 1, from the seeded generator: for choices of the test that belong to the run.
  std::uint64_t random(std::uint64_t bound);

  void accept(int listener, sockaddr_storage& peer, Operation& operation) override;
  void receive(int fd, ReceiveState& state) override;
  void receive_stop(ReceiveState& state) override;
  void receive_idle(ReceiveState& state) override;
  void send(int fd, std::span<const iovec> data, bool more, Operation& operation) override;
  void send_file(int socket, int file, std::uint64_t offset, std::size_t length,
                 Operation& operation) override;
  void connect(int fd, const sockaddr* address, socklen_t length, Operation& operation) override;
  void read(int file, void* into, std::size_t length, std::uint64_t offset,
            Operation& operation) override;
  void write(int file, const void* from, std::size_t length, std::uint64_t offset,
             Operation& operation) override;
  void open(const char* path, int flags, unsigned mode, Operation& operation) override;
  void poll(int fd, unsigned poll_events, Operation& operation) override;
  void cancel(Operation& operation) override;
  void schedule(Timer& timer, Milliseconds after_ms) override;
  void cancel(Timer& timer) override;
  bool offload(OffloadTask& task) override;
  // Never blocks. With nothing to do it stops the loop, so that run() returns.
  void run_once() override;
  void wake() override { woken_ = true; }

 private:
  enum class Kind : std::uint8_t;
  struct Event;
  using Events = std::vector<std::unique_ptr<Event>>;
  static constexpr std::size_t kOffloadTasksMax = 256;

  Event& add(Kind kind);
  Event& start(Kind kind, int fd, Operation& operation);
  bool chance(unsigned per_mille) { return per_mille != 0 && random(1000) < per_mille; }
  std::size_t portion(std::size_t size);
  SimPeer& make_peer();
  void watch_closes();
  void leap_clocks();
  bool reset_now(SimPeer& peer);
  // Can the event happen now, its delay aside?
  bool possible(const Event& event);
  void happen(std::unique_ptr<Event> event);
  int perform(Event& event);
  int perform_accept(Event& event);
  int perform_send(Event& event);
  int perform_send_file(Event& event);
  int perform_connect(Event& event);
  int perform_file(Event& event);
  int poll_now(int fd, unsigned wanted);
  void happen_receive(ReceiveState& state);
  void settle(ReceiveState& state);
  std::unique_ptr<Event> take_event(std::uint64_t id);
  bool happen_some();
  Milliseconds next_delayed();
  bool turn(bool run_ahead);
  bool run_until(bool run_ahead, int turns_max);

  SimOptions options_;
  std::uint64_t random_state_;
  std::int64_t wall_us_;
  Milliseconds now_;
  std::uint64_t events_made_ = 0;
  bool woken_ = false;
  bool quiet_ = false;
  std::size_t offloaded_ = 0;
  std::unique_ptr<TimerWheel> wheel_;
  Events events_;  // In the order of their making, which the generator then permutes.
  std::vector<std::unique_ptr<SimPeer>> peers_;
  std::unordered_map<int, SimPeer*>
      by_fd_;  // The newest connection that has, or had, the descriptor.
  std::unordered_map<int, std::deque<SimPeer*>> listeners_;
  std::function<int(const sockaddr*, socklen_t)> decide_connect_;
};

}  // namespace corehttpd::io
