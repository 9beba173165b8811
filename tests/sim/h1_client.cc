#include "sim/h1_client.h"

namespace corehttpd::sim {
namespace {

// "\r\n" ends each line; the value's blanks are cut.
Answer parse_head(std::string_view head) {
  Answer answer;
  if (head.size() < 12 || !head.starts_with("HTTP/1.1 ")) {
    answer.status = -1;
    return answer;
  }
  std::from_chars(head.data() + 9, head.data() + 12, answer.status);
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 2);
    const std::size_t colon = line.find(": ");
    if (line.starts_with("HTTP/1.1 ") || colon == std::string_view::npos) continue;
    answer.fields.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  return answer;
}

enum class Chunks { kMore, kEnd, kBad };
// Decodes from at on, which is moved behind the last chunk.
Chunks take_chunks(std::string_view text, std::size_t& at, std::string& body) {
  for (;;) {
    const std::size_t line = text.find("\r\n", at);
    if (line == std::string_view::npos) return Chunks::kMore;
    std::size_t size = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + line, size, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + line) return Chunks::kBad;
    const std::size_t begin = line + 2;
    body += text.substr(begin, size);
    if (text.size() < begin + size + 2) return Chunks::kMore;
    if (text.substr(begin + size, 2) != "\r\n") return Chunks::kBad;
    at = begin + size + 2;
    if (size == 0) return Chunks::kEnd;
  }
}

std::string chunked(io::SimLoop& loop, std::string_view body) {
  std::string out;
  while (!body.empty()) {
    const std::size_t size = 1 + loop.random(std::min<std::size_t>(body.size(), 5000));
    out += fmt::format("{:x}{}\r\n{}\r\n", size, loop.random(5) == 0 ? ";x=\"y\"" : "",
                       body.substr(0, size));
    body.remove_prefix(size);
  }
  return out + (loop.random(4) == 0 ? "0\r\nX-Sum: 1\r\n\r\n" : "0\r\n\r\n");
}

// nginx's 494, which is 400 on the wire.
constexpr std::string_view kTooLargePage =
    "<html>\r\n<head><title>400 Request Header Or Cookie Too Large</title></head>\r\n<body>\r\n"
    "<center><h1>400 Bad Request</h1></center>\r\n"
    "<center>Request Header Or Cookie Too Large</center>\r\n<hr><center>corehttpd</center>\r\n"
    "</body>\r\n</html>\r\n";

}  // namespace

std::optional<Answer> take_answer(std::string& text, const Want& want, bool ended,
                                  Answer& partial) {
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  Answer answer = parse_head(std::string_view(text).substr(0, end + 2));
  std::size_t at = end + 4;
  if (want.sends_body() && answer.field("Transfer-Encoding") == "chunked") {
    const Chunks chunks = take_chunks(text, at, answer.body);
    EXPECT_NE(chunks, Chunks::kBad) << text.substr(0, 400);
    partial = answer;
    if (chunks != Chunks::kEnd) return std::nullopt;
  } else if (want.sends_body() && answer.field("Content-Length").empty()) {
    answer.body = text.substr(at);
    partial = answer;
    EXPECT_EQ(answer.field("Connection"), "close");
    if (!ended) return std::nullopt;
    at = text.size();
  } else if (want.sends_body()) {
    const std::string length = answer.field("Content-Length");
    std::size_t size = 0;
    EXPECT_EQ(std::from_chars(length.data(), length.data() + length.size(), size).ec, std::errc())
        << text.substr(0, end);
    answer.body = text.substr(at, size);
    partial = answer;
    if (text.size() - at < size) return std::nullopt;
    at += size;
  }
  text.erase(0, at);
  return answer;
}

std::string encode(io::SimLoop& loop, const Case& made, bool http10, bool close) {
  const Ask& ask = made.ask;
  std::string out = fmt::format("{} {} HTTP/1.{}\r\nHost: {}\r\n", ask.method, ask.target,
                                http10 ? 0 : 1, ask.host);
  for (const auto& [name, value] : ask.fields) out += fmt::format("{}: {}\r\n", name, value);
  if (close && !http10) out += "Connection: close\r\n";
  if (made.want.may_close) out += "Expect: 100-continue\r\n";
  if (!ask.has_body) return out + "\r\n";
  if (ask.chunked) {
    return out + "Transfer-Encoding: chunked\r\n\r\n" + chunked(loop, ask.body);
  }
  return out + fmt::format("Content-Length: {}\r\n\r\n{}", ask.body.size(), ask.body);
}

H1Client::H1Client(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather, std::string tag)
    : Client(loop, peer, weather, std::move(tag)),
      end_(static_cast<End>(random(static_cast<std::uint64_t>(End::kCount)))),
      left_(static_cast<int>(random(16))),
      depth_(random(2) == 0 ? 1 : 1 + random(10)) {
  cut_ = random(3) != 0;
  slow_ = random(4) == 0;
  if (slow_) peer_.set_window(200 + random(3000));
  reset_planned_ = end_ == End::kReset;
}

std::string H1Client::describe() const {
  return fmt::format(
      "{} (HTTP/1, end {}, {} to ask, {} waiting, {} bytes to push, {} not understood)", tag_,
      static_cast<int>(end_), left_, waiting_.size(), out_.size(), in_.size());
}

bool H1Client::active() const {
  if (over_) return false;
  if (peer_.ended() || peer_.was_reset() || !out_.empty() || finish_due_ || reset_planned_)
    return true;
  if (!stalled_ && !peer_.arrived().empty()) return true;
  return (left_ > 0 && waiting_.size() < depth_ && !close_seen_) || (left_ == 0 && !said_all_);
}

void H1Client::step() {
  const bool ended = peer_.ended() || peer_.was_reset();
  if (end_ == End::kStalledRead && !stalled_ && random(20) == 0) {
    stalled_ = true;
    peer_.set_window(0);
  }
  read();
  if (ended) return at_end();
  write();
}

void H1Client::add(const Case& made, std::string bytes) {
  waiting_.push_back(made);
  out_ += bytes;
}

void H1Client::write() {
  if (left_ > 0 && waiting_.size() < depth_ && !close_seen_) {
    --left_;
    Case made = model_.next();
    const bool last = left_ == 0 && end_ == End::kClose;
    const bool http10 = last && random(2) == 0;
    made.want.closes = last;
    made.ask.chunked = made.ask.has_body && !http10 && random(2) == 0;
    if (made.ask.too_large()) {
      made.refuse_as_too_large();
      made.want.closes = true;
      left_ = 0;
    } else if (made.ask.has_body && random(6) == 0) {
      made.want.may_close = true;
    }
    add(made, encode(loop_, made, http10, last));
  }
  if (left_ == 0 && !said_all_) add_last_words();
  push_some(out_);
  if (out_.empty() && std::exchange(finish_due_, false)) peer_.finish();
}

void H1Client::add_last_words() {
  if (end_ == End::kLeave && !waiting_.empty()) return;
  said_all_ = true;
  switch (end_) {
    case End::kClose:
    case End::kIdle:
    case End::kReset:
    case End::kStalledRead:
      return;
    case End::kHalfClose:
    case End::kLeave:
      finish_due_ = true;
      return;
    case End::kMalformed:
      return add_malformed();
    case End::kStalledHead:
    case End::kCutHead: {
      const std::string whole = encode(loop_, model_.plain(), false, false);
      out_ += whole.substr(0, 5 + random(whole.size() - 6));
      finish_due_ = end_ == End::kCutHead;
      if (finish_due_) return;
      Case made;
      made.want = {.status = 408, .body = page_of(408), .closes = true};
      waiting_.push_back(made);
      return;
    }
    case End::kStalledBody:
    case End::kCutBody: {
      Case made = model_.simple_post(std::string(2000, 'b'));
      std::string whole = encode(loop_, made, false, false);
      whole.resize(whole.size() - 6 - random(1000));
      add(made, whole);
      finish_due_ = end_ == End::kCutBody;
      return;
    }
    case End::kCount:
      return;
  }
}

void H1Client::add_malformed() {
  Case made;
  made.want = {.status = 400, .body = page_of(400), .closes = true};
  const std::string uri = fmt::format("/text/?id={}bad", tag_);
  switch (random(6)) {
    case 0:
      return add(made, "GET " + uri + " HTTP/1.1\r\n\r\n");
    case 1:
      return add(made, "GET " + uri + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    case 2:
      return add(made, "POST " + uri + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n");
    case 3:
      made.want.body = kTooLargePage;
      return add(
          made, "GET " + uri + " HTTP/1.1\r\nHost: a\r\nX: " + std::string(9000, 'x') + "\r\n\r\n");
    case 4:
      made.want.status = 414;
      made.want.body = page_of(414);
      return add(made, "GET " + uri + std::string(9000, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n");
    default:
      // Refused, unless the body comes so late that the head has been answered; the connection ends
      // then.
      Case good = model_.simple_post("");
      good.want.may_close = good.want.may_be_refused = true;
      return add(
          good,
          fmt::format(
              "POST {} HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
              good.ask.target));
  }
}

void H1Client::read() {
  in_ += take_some();
  while (!in_.empty()) {
    ASSERT_FALSE(close_seen_) << "bytes behind the last answer: " << in_.substr(0, 200);
    ASSERT_FALSE(waiting_.empty()) << "bytes that nobody asked for: " << in_.substr(0, 200);
    if (in_.starts_with("HTTP/1.1 100 Continue\r\n\r\n")) {
      in_.erase(0, 25);
      continue;
    }
    const Case& made = waiting_.front();
    Answer partial;
    // Only an end that can be nothing else is the end of a body without a length.
    const bool ended = all_here_ && !broken() && !weather_.resets;
    const auto answer = take_answer(in_, made.want, ended, partial);
    if (!answer) return;
    check(made, *answer, true);
    close_seen_ = answer->field("Connection") == "close";
    const bool may = made.want.may_close || made.want.closes || weather_.draining;
    EXPECT_TRUE(!close_seen_ || may) << made.ask.target;
    EXPECT_TRUE(close_seen_ || !made.want.closes) << made.ask.target;
    if (!made.ask.target.empty()) answered_.push_back(made.ask.target);
    waiting_.pop_front();
  }
}

// The server has ended the connection: was it right to?
void H1Client::at_end() {
  // A stalled client's window may hold the rest of an answer; nothing more comes.
  stalled_ = false;
  slow_ = false;
  all_here_ = true;
  read();
  over_ = true;
  if (!peer_.was_reset()) peer_.finish();
  const bool may_break = broken() || end_ == End::kStalledRead ||
                         (!waiting_.empty() && fragile(waiting_.front())) ||
                         (weather_.resets && end_ == End::kClose);
  if (!in_.empty()) {
    EXPECT_TRUE(may_break) << describe() << ": broken answer: " << in_.substr(0, 300);
    Answer partial;
    if (waiting_.empty() || in_.find("\r\n\r\n") == std::string::npos) return;
    take_answer(in_, waiting_.front().want, false, partial);
    if (partial.status != 0) check(waiting_.front(), partial, false);
  } else if (!waiting_.empty()) {
    const bool told = close_seen_ || (weather_.draining && (weather_.leaps || answered_.empty()));
    // A gateway's client that shuts its side down has gone away, as with nginx.
    const bool half_closed =
        end_ == End::kHalfClose || end_ == End::kCutHead || end_ == End::kCutBody;
    const bool gone = half_closed && waiting_.front().ask.target.starts_with("/fcgi/");
    EXPECT_TRUE(may_break || told || gone)
        << describe() << ": no answer to " << waiting_.front().ask.target;
  } else if (!may_break && left_ > 0) {
    EXPECT_TRUE(close_seen_ || weather_.draining) << describe() << ": ended too early";
  }
}

GarbageClient::GarbageClient(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather,
                             std::string tag)
    : Client(loop, peer, weather, std::move(tag)) {
  cut_ = true;
  for (std::uint64_t i = 1 + random(4); i != 0; --i) {
    std::string bytes = encode(loop_, model_.next(), false, false);
    for (std::uint64_t flips = random(4); flips != 0; --flips) {
      bytes[random(bytes.size())] = static_cast<char>(random(256));
    }
    out_ += bytes;
  }
  if (random(3) == 0) out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + out_;
  sent_ = out_;
}

void GarbageClient::step() {
  in_ += peer_.take();
  push_some(out_);
  if (out_.empty()) peer_.finish();
  if (!peer_.ended() && !peer_.was_reset()) return;
  in_ += peer_.take();
  over_ = true;
  if (!peer_.was_reset()) peer_.finish();
  constexpr std::string_view kField = "\r\nX-Uri: ";
  for (std::size_t at = 0; (at = in_.find(kField, at)) != std::string::npos;) {
    at += kField.size();
    const std::string uri = in_.substr(at, in_.find("\r\n", at) - at);
    EXPECT_NE(sent_.find(uri), std::string::npos) << uri;
  }
}

}  // namespace corehttpd::sim
