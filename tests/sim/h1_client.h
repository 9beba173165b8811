// Clients that speak HTTP/1, well or badly.
#pragma once

#include <charconv>
#include <deque>
#include <optional>

#include "sim/client.h"

namespace corehttpd::sim {

// Takes one answer off the front of text as a strict client would; nothing while it is incomplete.
// ended: nothing comes behind text. partial: what there is of an incomplete one.
std::optional<Answer> take_answer(std::string& text, const Want& want, bool ended, Answer& partial);
// The wire form of a request.
std::string encode(io::SimLoop& loop, const Case& made, bool http10, bool close);

class H1Client final : public Client {
 public:
  H1Client(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather, std::string tag);
  bool active() const override;
  bool stalls() const override {
    return end_ == End::kStalledHead || end_ == End::kStalledBody || end_ == End::kStalledRead;
  }
  std::string describe() const override;

 private:
  // What the client does after its last good request.
  enum class End : std::uint8_t {
    kClose,        // The last one says Connection: close, or is HTTP/1.0.
    kHalfClose,    // Shuts its side down behind the last one and waits for the answers.
    kIdle,         // Says nothing more: keepalive_timeout.
    kLeave,        // Closes when all is answered.
    kReset,        // At any moment.
    kCutHead,      // Half a head, then its end.
    kCutBody,      // Half a body, then its end.
    kStalledHead,  // Half a head, then silence.
    kStalledBody,  // Half a body, then silence.
    kStalledRead,  // Takes nothing any more from some moment on.
    kMalformed,    // Something that is no request.
    kCount,
  };
  void step() override;
  void read();
  void write();
  void add_last_words();
  void add_malformed();
  void add(const Case& made, std::string bytes);
  void at_end();

  End end_;
  int left_;                  // Good requests still to be made.
  std::size_t depth_;         // Unanswered at one time.
  std::deque<Case> waiting_;  // Asked and not answered, oldest first.
  std::string out_;           // Still to be pushed.
  std::string in_;            // Received, not understood yet.
  bool finish_due_ = false;   // When out_ is empty.
  bool said_all_ = false;
  bool all_here_ = false;    // The connection has ended and in_ has the rest.
  bool close_seen_ = false;  // The last answer was said to be the last.
};

// Pushes requests with some bytes changed. Nothing is known of the answers but that they must be
// its own, and that it must end.
class GarbageClient final : public Client {
 public:
  GarbageClient(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather, std::string tag);
  bool active() const override { return !out_.empty() || !peer_.arrived().empty(); }

 private:
  void step() override;
  std::string out_;
  std::string sent_;
  std::string in_;
};

}  // namespace corehttpd::sim
