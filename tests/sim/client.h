// What simulated clients have in common.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/io/sim_loop.h"
#include "sim/model.h"

namespace corehttpd::sim {

// What the run does to everybody, so that clients know which ends are right.
struct Weather {
  bool draining = false;    // A graceful end has begun.
  bool closed_now = false;  // The worker's patience was over: connections may break anywhere.
  bool leaps = false;
  bool resets = false;  // Transfers find connections reset, the origin's too.
};

// An answer as received; names of fields are compared without case.
struct Answer {
  int status = 0;
  Fields fields;
  std::string body;
  std::string field(std::string_view name) const {
    for (const auto& [n, v] : fields) {
      if (text::equals_ignore_case(n, name)) return v;
    }
    return {};
  }
};

// The fields of an answer on one line, for messages.
inline std::string shown(const Answer& answer) {
  std::string text;
  for (const auto& [name, value] : answer.fields) text += name + ": " + value + "; ";
  return text;
}

// The head and, complete or not, the body are what they must be.
inline void expect_head(const Case& made, const Answer& answer) {
  EXPECT_EQ(answer.status, made.want.status) << made.ask.target;
  for (const auto& [name, value] : made.want.fields) {
    EXPECT_EQ(answer.field(name), value) << name << " of " << made.ask.method << " "
                                         << made.ask.target << ", fields: " << shown(answer);
  }
}
inline void expect_answer(const Case& made, const Answer& answer, bool complete) {
  if (made.want.may_be_refused && answer.status == 400) {
    Case refused = made;
    refused.want = {.status = 400, .body = page_of(400)};
    return expect_answer(refused, answer, complete);
  }
  expect_head(made, answer);
  const Want& want = made.want;
  if (want.any_body) {
    if (complete && !want.head) {
      EXPECT_TRUE(answer.body.starts_with("Active connections: ")) << answer.body;
      EXPECT_TRUE(answer.body.ends_with(" \n")) << answer.body;
    }
    return;
  }
  std::string body = want.sends_body() ? want.body : "";
  if (!want.parts.empty()) {
    constexpr std::string_view kType = "multipart/byteranges; boundary=";
    const std::string type = answer.field("Content-Type");
    ASSERT_TRUE(type.starts_with(kType)) << type;
    body = multipart_body(want, std::string_view(type).substr(kType.size()));
  }
  if (!complete) body.resize(std::min(body.size(), answer.body.size()));
  if (body == answer.body) return;
  const std::size_t at = static_cast<std::size_t>(
      std::mismatch(body.begin(), body.end(), answer.body.begin(), answer.body.end()).first -
      body.begin());
  ADD_FAILURE() << made.ask.method << " " << made.ask.target << ": body differs at " << at << " of "
                << body.size() << " (got " << answer.body.size() << " bytes): \""
                << answer.body.substr(at, 80) << "\" instead of \"" << body.substr(at, 80) << "\"";
}

class Client {
 public:
  Client(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather, std::string tag)
      : loop_(loop), peer_(peer), weather_(weather), tag_(std::move(tag)), model_(loop, tag_) {}
  virtual ~Client() = default;
  // Does something, or nothing.
  void act() {
    if (over_) return;
    if (!reset_planned_ || peer_.fd() < 0 || random(40) != 0) return step();
    peer_.reset();
  }
  // It has something to do by itself, so that time must not run ahead to a timeout.
  virtual bool active() const = 0;
  // The server has ended the connection, and all that came of it has been checked.
  bool over() const { return over_; }
  // A connection that nobody accepted any more.
  void give_up_waiting() {
    if (peer_.fd() < 0) over_ = true;
  }
  const std::string& tag() const { return tag_; }
  // Targets whose answers arrived whole.
  const std::vector<std::string>& answered() const { return answered_; }
  // It keeps the server waiting for a timeout.
  virtual bool stalls() const { return false; }
  virtual std::string describe() const { return tag_; }

 protected:
  virtual void step() = 0;
  std::uint64_t random(std::uint64_t bound) { return loop_.random(bound); }
  // The origin's connection may have been reset under this one.
  bool fragile(const Case& made) const {
    return weather_.resets && made.ask.target.starts_with("/fcgi/");
  }
  bool is_bad_gateway(const Case& made, const Answer& answer, bool complete) const {
    if (!fragile(made) || answer.status != 502) return false;
    EXPECT_EQ(answer.field("X-Uri"), made.ask.target);
    const std::string page = made.want.head ? "" : page_of(502);
    EXPECT_EQ(answer.body, complete ? page : page.substr(0, answer.body.size()));
    return true;
  }
  void check(const Case& made, const Answer& answer, bool complete) const {
    if (!is_bad_gateway(made, answer, complete)) expect_answer(made, answer, complete);
  }
  bool broken() const { return peer_.was_reset() || weather_.closed_now; }
  // Pushes some of text, or all.
  void push_some(std::string& text) {
    if (text.empty()) return;
    std::size_t size = text.size();
    if (cut_) size = random(3) == 0 ? 1 + random(std::min<std::size_t>(size, 8)) : 1 + random(size);
    peer_.push(std::string_view(text).substr(0, size));
    text.erase(0, size);
  }
  // A slow reader looks now and then, one that has stalled never again.
  std::string take_some() {
    if (stalled_ || (slow_ && random(4) != 0)) return {};
    return peer_.take();
  }

  io::SimLoop& loop_;
  io::SimPeer& peer_;
  const Weather& weather_;
  std::string tag_;
  Model model_;
  std::vector<std::string> answered_;
  bool over_ = false;
  bool cut_ = false;
  bool slow_ = false;
  bool stalled_ = false;
  bool reset_planned_ = false;
};

}  // namespace corehttpd::sim
