// Bytes from the client.
#include <algorithm>
#include <cstring>

#include "corehttpd/http/tls_info.h"
#include "corehttpd/proto/h2.h"
#include "proto/connection_log.h"
#include "proto/h1/connection.h"

namespace corehttpd::h1 {
namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of a request line that was refused, what the log is to show.
constexpr std::size_t kRefusedLineMax = 1024;

// Is what has come of a chunked body with its head wrong already? It is refused then whether
// anybody wants the body or not: an answer that came first would hide the fault from the client.
bool begins_malformed(std::span<const std::byte> body) {
  ChunkedDecoder decoder;
  for (;;) {
    const ChunkedDecoder::Step step = decoder.next(body, body.size());
    if (step.event != ChunkedDecoder::Event::kData)
      return step.event == ChunkedDecoder::Event::kMalformed;
    body = body.subspan(step.consumed);
  }
}

}  // namespace

void Connection::on_received(std::span<const std::byte> data) {
  read_progress_ = true;
  swapped_ = false;
  if (data.empty()) end_of_input_ = true;
  switch (state_) {
    case State::kOpen:
      break;
    case State::kLingering:
      if (end_of_input_) return begin_close();
      wait_for_rest(Wait::kLinger);
      read_progress_ = false;
      return;
    case State::kHandingOver:
    case State::kClosing:
    case State::kClosed:
      return;
  }
  if (input_.empty()) {
    context_.receiving = {this, data};
  } else if (!data.empty() && !input_.append(data, context_.services.blocks)) {
    return lose(Error{Code::kUnavailable, Party::kSelf, 0, "no memory for input"});
  }
  advance();
  if (!keep_rest()) lose(Error{Code::kUnavailable, Party::kSelf, 0, "no memory for input"});
}

void Connection::on_receive_error(int errno_value) {
  end_of_input_ = true;
  if (info_.tls != nullptr && !info_.tls->problem().empty()) {
    log_in(settings_.error_log, LogLevel::kInfo, proto::ConnectionLog(info_), 0,
           "{} while waiting for request", info_.tls->problem());
  }
  if (state_ == State::kHandingOver) return;
  lose(error_from_errno(errno_value, "recv()"));
}

// What the call brought and nobody took must outlive it.
bool Connection::keep_rest() {
  const auto rest = received();
  context_.receiving = {};
  if (rest.empty() || state_ == State::kClosing || state_ == State::kClosed) return true;
  return input_.append(rest, context_.services.blocks);
}

void Connection::consume_input(std::size_t count) {
  if (input_.empty()) {
    context_.receiving.rest = received().subspan(count);
  } else {
    input_.consume(count);
  }
}

void Connection::discard_input() {
  if (!has_input()) return;
  unread_input_ = true;
  drop_received();
  input_.clear();
}

// Starts the next request if its head is here. False when there is nothing to go on with.
bool Connection::begin_request() {
  if (!has_input()) return false;
  const std::string_view text = as_text(input());
  if (info_.requests == 0 && text.front() == 'P') {
    bool undecided = false;
    if (is_http2_preface(text, undecided)) {
      begin_handover();
      return false;
    }
    if (undecided) return false;
  }
  const HeadLimits limits = HeadLimits::from(settings_);
  switch (scanner_.scan(text, limits)) {
    case HeadScanner::Verdict::kComplete: {
      const std::size_t end = scanner_.end();
      start_request(text.substr(scanner_.begin(), end - scanner_.begin()), limits);
      return true;
    }
    case HeadScanner::Verdict::kRefused: {
      const bool line = scanner_.status() == 414;
      refuse_head(scanner_.status(),
                  line ? "client sent too long URI while reading client request line"
                       : "client sent too long header line while reading client request headers");
      return true;
    }
    case HeadScanner::Verdict::kIncomplete:
      break;
  }
  const std::uint16_t status =
      text.size() > scanner_.begin() ? judge_beginning(text.substr(scanner_.begin())) : 0;
  if (status == 0) return false;
  refuse_head(status, "client sent invalid request while reading client request line");
  return true;
}

bool Connection::is_http2_preface(std::string_view text, bool& undecided) const {
  // Over TLS it is agreed on, not recognized.
  if (!info_.endpoint->http2 || over_tls() || info_.plain_to_tls) return false;
  const std::size_t length = std::min(text.size(), h2::kPrefaceBytes);
  if (std::memcmp(text.data(), h2::kPreface, length) != 0) return false;
  undecided = length < h2::kPrefaceBytes;
  return !undecided;
}

// head is somewhere in the input; it is copied once, to where the exchange lives.
void Connection::start_request(std::string_view head, const HeadLimits& limits) {
  Request& request = context_.requests.make(*this);
  requests_.push_back(request);
  ++request_count_;
  ++info_.requests;
  serving_ = true;
  http::RequestHead& into = request.exchange.request();
  const ParsedHead parsed =
      parse_head(request.exchange.arena().copy(head), limits, request.exchange.arena(), into);
  consume_input(scanner_.end());
  scanner_.reset();
  if (parsed.ignored != 0) {
    request.exchange.log(
        LogLevel::kInfo, 0,
        "client sent invalid header line: \"{}\" while reading client request headers",
        parsed.first_ignored);
  }
  if (parsed.status != 0) {
    unread_input_ = true;
    request.exchange.log(LogLevel::kInfo, 0, "{}", parsed.problem);
    return request.exchange.start_failed(parsed.status);
  }
  if (parsed.framing == BodyFraming::kChunked && begins_malformed(input())) {
    unread_input_ = true;
    request.exchange.log(LogLevel::kInfo, 0, "client sent invalid chunked body");
    return request.exchange.start_failed(400);
  }
  // A client with an expectation that will not be met may never send the body that it announced.
  request.keep_alive =
      parsed.keep_alive && !(into.unknown_expectation && parsed.framing != BodyFraming::kNone);
  client_ends_ = !parsed.keep_alive && parsed.framing == BodyFraming::kNone;
  request.body.framing = parsed.framing;
  request.body.done = parsed.framing == BodyFraming::kNone;
  request.body.left = into.content_length.value_or(0);
  request.body.continue_due = into.expects_continue && !request.body.done;
  set_activity(http::Counters::Activity::kWriting);  // stub_status counts who asks for it, too.
  request.exchange.start();
}

// A head that will not be complete: an answer, then the end, for where the next request begins is
// unknown.
void Connection::refuse_head(std::uint16_t status, const char* problem) {
  Request& request = context_.requests.make(*this);
  requests_.push_back(request);
  ++request_count_;
  ++info_.requests;
  serving_ = true;
  std::string_view line = as_text(input()).substr(std::min(scanner_.begin(), input().size()));
  line = line.substr(0, std::min(line.find_first_of("\r\n"), kRefusedLineMax));
  http::RequestHead& into = request.exchange.request();
  into.request_line = request.exchange.arena().copy(line);
  into.head_bytes = input().size();
  const std::size_t blank = into.request_line.find(' ');
  into.method_text = into.request_line.substr(0, blank == std::string_view::npos ? 0 : blank);
  into.method = http::parse_method(into.method_text);
  discard_input();
  scanner_.reset();
  unread_input_ = true;
  const bool was_running = running_;
  running_ = true;
  request.exchange.log(LogLevel::kInfo, 0, "{}", problem);
  request.exchange.start_failed(status);
  running_ = was_running;
}

// Gives the sink what it has asked for; reads past what nobody wants.
void Connection::feed_body(Request& request) {
  while (!request.body.done && !request.failure && has_input()) {
    const bool moved = request.body.framing == BodyFraming::kLength
                           ? feed_length(request, input())
                           : feed_chunked(request, input());
    if (!moved) break;
  }
  if (request.body.done || request.failure || !end_of_input_ || has_input()) return;
  request.exchange.log(LogLevel::kInfo, 0, "client prematurely closed connection");
  request.break_body(
      Error{Code::kClosed, Party::kClient, 400, "client prematurely closed connection"});
}

// False when nothing of bytes can be used now.
bool Connection::feed_length(Request& request, std::span<const std::byte> bytes) {
  IncomingBody& body = request.body;
  const bool discard = request.discarding();
  std::uint64_t take = std::min<std::uint64_t>(bytes.size(), body.left);
  if (!discard) take = std::min(take, body.credit);
  if (take == 0) return false;
  body.left -= take;
  body.done = body.left == 0;
  if (!discard) {
    body.credit -= take;
    request.exchange.body().on_data(bytes.first(take), body.done);
  }
  consume_input(take);
  return true;
}

bool Connection::feed_chunked(Request& request, std::span<const std::byte> bytes) {
  IncomingBody& body = request.body;
  const bool discard = request.discarding();
  // The end may come without credit, but not before anybody has asked.
  if (!discard && !body.granted) return false;
  const std::uint64_t wanted = discard ? UINT64_MAX : body.credit;
  const auto step = body.chunks.next(bytes, wanted);
  using Event = ChunkedDecoder::Event;
  switch (step.event) {
    case Event::kNeedInput:
      break;
    case Event::kData:
      if (discard) break;
      body.credit -= step.data.size();
      request.exchange.body().on_data(step.data, false);
      break;
    case Event::kEnd:
      body.done = true;
      if (!discard) request.exchange.body().on_data({}, true);
      break;
    case Event::kMalformed:
      unread_input_ = true;
      request.exchange.log(LogLevel::kInfo, 0, "client sent invalid chunked body");
      request.break_body(
          Error{Code::kMalformed, Party::kClient, 400, "client sent invalid chunked body"});
      break;
  }
  consume_input(step.consumed);
  return step.consumed != 0 || body.done;
}

void Connection::begin_handover() {
  state_ = State::kHandingOver;
  loop().cancel(timer());
  loop().receive_stop(receive_state());
}

// The kernel has let go: the descriptor and everything read from it change hands.
void Connection::hand_over() {
  bool kept = true;
  struct Take {
    Connection& connection;
    bool& kept;
  } take{*this, kept};
  receive_state().take_parked(&take, [](void* context, std::span<const std::byte> bytes) {
    auto& into = *static_cast<Take*>(context);
    into.kept =
        into.kept && into.connection.input_.append(bytes, into.connection.context_.services.blocks);
  });
  if (!kept) return begin_close();
  context_.services.counters.activity(activity_, -1);
  context_.connections.remove(*this);
  const int fd = std::exchange(fd_, -1);
  destroy_at_end_of_turn();
  h2::take_over(fd, info_, context_.services, input_.view(), context_.connections);
}

}  // namespace corehttpd::h1
