// The origin's answer: events of the codec become a head, a body in the spool, lines in the log.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "corehttpd/base/check.h"
#include "corehttpd/base/text.h"
#include "corehttpd/http/response_rate.h"
#include "upstream/gateway_request.h"

namespace corehttpd::upstream {
namespace {

// One log line of what the origin says on its error stream; longer messages take several, as lines
// have a limit of their own.
constexpr std::size_t kDiagnosticsMax = 2048;
constexpr std::size_t kShownLineMax = 200;

// The bit of next_upstream for a status; 0 for those that have none.
std::uint32_t next_bit(std::uint16_t status) {
  switch (status) {
    case 403:
      return kNext403;
    case 404:
      return kNext404;
    case 429:
      return kNext429;
    case 500:
      return kNext500;
    case 502:
      return kNext502;
    case 503:
      return kNext503;
    case 504:
      return kNext504;
    default:
      return 0;
  }
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void GatewayRequest::on_received(std::span<const std::byte> bytes) {
  if (bytes.empty()) return on_origin_closed(0);
  if (attempt_ != nullptr) attempt_->bytes_received += bytes.size();
  // Any event may end the attempt, and begin another: then the rest is nobody's.
  const OriginConnection* const connection = connection_;
  while (connection_ == connection) {
    const OriginEvent event = codec_->next(bytes);
    if (event.kind == OriginEvent::Kind::kNeedMore) break;
    input_left_ = bytes.size();
    handle(event);
  }
  if (respond_due_) respond();
  if (connection_ != connection || connection_ == nullptr) return;
  // Without a message that ends it, a response whose length is known is over with its last byte.
  if (responded_ && spool_.ended() && codec_->close_is_end()) return on_end();
  if (send_over_) arm_read_timer();
  note_pressure();
  keep_to_rate();
}

void GatewayRequest::handle(const OriginEvent& event) {
  switch (event.kind) {
    case OriginEvent::Kind::kNeedMore:
      return;
    case OriginEvent::Kind::kOutput:
      return on_output(event.bytes);
    case OriginEvent::Kind::kOutputEnd:
      return on_output_end();
    case OriginEvent::Kind::kDiagnostics:
      return on_diagnostics(event.bytes, event.last);
    case OriginEvent::Kind::kEnd:
      return on_end();
    case OriginEvent::Kind::kMalformed:
      log(LogLevel::kError, "upstream sent {} while {}", codec_->describe_problem(), doing());
      return attempt_failed(kNextInvalidHeader, 502);
  }
}

// --- Output: head, then body.

void GatewayRequest::on_output(std::span<const std::byte> bytes) {
  if (exchange_ == nullptr) {
    drained_bytes_ += bytes.size();
    if (drained_bytes_ > drain_max_) end_attempt();
    return;
  }
  const OriginConnection* const connection = connection_;
  while (connection_ == connection &&
         head_reader_->state() == ResponseHeadReader::State::kReading) {
    if (bytes.empty()) return;
    switch (head_reader_->read(exchange_->arena(), bytes)) {
      case ResponseHeadReader::State::kReading:
        return;
      case ResponseHeadReader::State::kComplete:
        on_head();
        break;
      case ResponseHeadReader::State::kTooBig:
        log(LogLevel::kError, "upstream sent too big header while {} ({}_buffer_size {})",
            "reading response header from upstream", pass_.protocol->scheme(),
            settings().buffer_size);
        return attempt_failed(kNextInvalidHeader, 502);
      case ResponseHeadReader::State::kInvalid:
        return on_malformed_head();
    }
  }
  if (connection_ == connection && !bytes.empty()) on_body_bytes(bytes);
}

void GatewayRequest::on_malformed_head() {
  std::string_view line = head_reader_->offending_line();
  if (line.size() > kShownLineMax) line = line.substr(0, kShownLineMax);
  log(LogLevel::kError,
      "upstream sent invalid header: \"{}\" ({}) while reading response header from upstream", line,
      head_reader_->problem());
  attempt_failed(kNextInvalidHeader, 502);
}

void GatewayRequest::on_head() {
  const OriginHead& head = head_reader_->head();
  if (head.status < 200) {
    if (on_informational(head)) return;
    log(LogLevel::kError,
        "upstream sent unexpected status {} while reading response header from upstream",
        head.status);
    return attempt_failed(kNextInvalidHeader, 502);
  }
  attempt_->status = head.status;
  attempt_->header_ms = now_ms() - attempt_->started_ms;
  attempts_->fields = head.fields;
  if (const std::uint32_t bit = next_bit(head.status);
      (settings().next_upstream & bit) != 0 && may_retry(static_cast<NextUpstream>(bit))) {
    return attempt_failed(static_cast<NextUpstream>(bit), head.status);
  }
  selector_.succeeded();
  const AccelOrders orders = read_orders(settings(), head);
  if (!orders.redirect.empty()) {
    end_attempt();
    if (!redirect_to(*exchange_, orders.redirect)) {
      log(LogLevel::kError, "unsafe URI \"{}\" was detected in X-Accel-Redirect while {}",
          orders.redirect, "reading response header from upstream");
      return conclude(http::StepOutcome::fail(404));
    }
    keep_for_redirect(*exchange_, head);
    // nginx keeps the rate as well: the file that is sent in place of the answer goes out at it.
    if (orders.limit_rate)
      exchange_->state<http::ResponseRate>().bytes_per_second = orders.limit_rate;
    // As in nginx a named location sees the request as it came.
    if (exchange_->request().method != http::Method::kHead && orders.redirect.front() != '@') {
      exchange_->set_method(http::Method::kGet);
    }
    return conclude(http::StepOutcome::redirect());
  }
  if (!orders.file.empty() && head.status == 200) {
    end_attempt();
    keep_for_redirect(*exchange_, head);
    exchange_->state<FileOrder>().path = orders.file;
    return conclude(http::StepOutcome::repeat());
  }
  if (head.status >= 300 && settings().intercept_errors &&
      exchange_->services().errors.has_page(*exchange_, head.status)) {
    // Without its challenge a 401 would be of no use.
    if (const http::Field* challenge = head.fields.find(http::FieldName::kWwwAuthenticate)) {
      exchange_->response().fields.add(exchange_->arena(), challenge->id, challenge->name,
                                       challenge->value);
    }
    end_attempt();
    return conclude(http::StepOutcome::fail(head.status));
  }
  accept_head(orders);
}

// 103 is passed on, 100 and 102 mean nothing between an origin and us. The head that counts
// follows.
bool GatewayRequest::on_informational(const OriginHead& head) {
  if (head.status == 101) return false;
  if (head.status == 103 && !exchange_->is_subrequest()) {
    http::FieldList links;
    for (const http::Field& field : head.fields) {
      if (text::equals_ignore_case(field.name, "Link")) {
        links.add(exchange_->arena(), field.id, field.name, field.value);
      }
    }
    if (!links.empty()) exchange_->transport().send_informational(103, links);
  }
  head_reader_->restart();
  return true;
}

void GatewayRequest::accept_head(const AccelOrders& orders) {
  const OriginHead& head = head_reader_->head();
  apply_head(*exchange_, settings(), head, orders);
  const bool has_body =
      exchange_->request().method != http::Method::kHead && !http::never_has_body(head.status);
  ResponseSpool::Limits limits;
  if (orders.buffering.value_or(settings().buffering)) {
    limits.memory_bytes = settings().buffers_number * settings().buffers_size;
    limits.file_bytes = settings().max_temp_file_size;
    limits.directory =
        settings().temp_path.empty() ? exchange_->services().body_temp_path : settings().temp_path;
  } else {
    limits.memory_bytes = settings().buffer_size;
  }
  const bool buffered = orders.buffering.value_or(settings().buffering);
  if (buffered && !settings().limit_rate.empty()) {
    rate_ = conf::parse_size(settings().limit_rate.evaluate(*exchange_)).value_or(0);
    rate_since_ms_ = now_ms();
  }
  spool_.configure(limits, has_body ? head.content_length : std::nullopt);
  respond_due_ = true;
  // The head may end an upload early; how far that has come is for the sending side to know.
  if (send_over_) state_ = State::kReadingBody;
}

// The response goes out once what came together with its head is in the spool: a short page then
// leaves in one piece, and with a length.
void GatewayRequest::respond() {
  respond_due_ = false;
  responded_ = true;
  http::ResponseHead& response = exchange_->response();
  const bool has_body =
      exchange_->request().method != http::Method::kHead && !http::never_has_body(response.status);
  if (has_body && !response.content_length && spool_.ended() && !spool_.failed()) {
    response.content_length = spool_.bytes_total();
  }
  concluded_ = true;
  exchange_->respond(&spool_);
  // A transform may have refused it (412, 416): then the exchange goes on by itself.
  if (!exchange_->refused()) exchange_->resume(http::StepOutcome::answered());
}

void GatewayRequest::on_body_bytes(std::span<const std::byte> bytes) {
  attempt_->response_length += bytes.size();
  if (spool_.cancelled()) {
    drained_bytes_ += bytes.size();
    if (drained_bytes_ > drain_max_) end_attempt();
    return;
  }
  if (spool_.append(bytes) != ResponseSpool::Append::kExcess) return;
  log(LogLevel::kWarn,
      "upstream sent more data than specified in \"Content-Length\" header while reading upstream");
  end_attempt();
}

// --- Ends.

void GatewayRequest::on_output_end() {
  if (exchange_ == nullptr || respond_due_ || responded_) {
    // All of the body is here. Only a connection that is to be used again has to be read to the end
    // of its message; an origin may well close without one.
    if (!keep_) on_end();
    return;
  }
  log(LogLevel::kError, "upstream prematurely closed {} stdout while {}", pass_.protocol->title(),
      "reading response header from upstream");
  attempt_failed(kNextInvalidHeader, 502);
}

void GatewayRequest::on_end() {
  flush_diagnostics();
  // Bytes behind the end would be taken for the next answer (and are nobody's).
  reusable_ = keep_ && codec_->reusable() && input_left_ == 0 && end_queued_ && send_over_ &&
              send_error_ == 0;
  if (exchange_ == nullptr) return end_attempt();
  if (!respond_due_ && !responded_) {
    log(LogLevel::kError, "upstream prematurely closed {} request while {}",
        pass_.protocol->title(), "reading response header from upstream");
    return attempt_failed(kNextInvalidHeader, 502);
  }
  if (!spool_.finish()) {
    log(LogLevel::kError,
        "upstream sent a body of {} bytes, shorter than its \"Content-Length\", while reading "
        "upstream",
        spool_.bytes_total());
  }
  end_attempt();
}

void GatewayRequest::on_receive_failed(int errno_value) { on_origin_closed(errno_value); }

// errno_value 0: an orderly close.
void GatewayRequest::on_origin_closed(int errno_value) {
  flush_diagnostics();
  if (retry_over_fresh(errno_value)) return;
  if (exchange_ == nullptr) return end_attempt();
  if (codec_->close_is_end() && errno_value == 0 && responded_) return on_end();
  if (spool_.ended() && responded_) return end_attempt();  // All of the promised length is here.
  const std::string_view reading =
      responded_ ? "reading upstream" : "reading response header from upstream";
  if (errno_value != 0) {
    log(LogLevel::kError, "recv() failed {} while {}", errno_text(errno_value), reading);
  } else if (send_error_ != 0 && head_reader_->empty()) {
    log(LogLevel::kError, "writev() failed {} while sending request to upstream",
        errno_text(send_error_));
  } else {
    log(LogLevel::kError, "upstream prematurely closed connection while {}{}", reading,
        about_backend({}));
  }
  attempt_failed(kNextError, 502);
}

void GatewayRequest::on_read_timer() {
  if (state_ == State::kResolving) return resolve_timed_out();
  if (state_ == State::kQueued) return queue_timed_out();
  log(LogLevel::kError, "upstream timed out {} while {}{}", errno_text(ETIMEDOUT), doing(),
      about_time("read_timeout", settings().read_timeout));
  attempt_failed(kNextTimeout, 504);
}

void GatewayRequest::arm_read_timer() {
  if (connection_ == nullptr || rate_timer_.scheduled()) return;
  if (responded_ && !spool_.ended() && spool_.full()) {
    loop_.cancel(read_timer_);  // It is we who make the origin wait.
  } else {
    loop_.schedule(read_timer_, settings().read_timeout);
  }
}

// --- The error stream.

void GatewayRequest::on_diagnostics(std::span<const std::byte> bytes, bool last) {
  while (!bytes.empty() && connection_ != nullptr) {
    if (!diagnostics_) diagnostics_ = Block::allocate(kDiagnosticsMax);
    const std::size_t now = std::min(bytes.size(), kDiagnosticsMax - diagnostics_bytes_);
    std::memcpy(diagnostics_->data() + diagnostics_bytes_, bytes.data(), now);
    diagnostics_bytes_ += now;
    bytes = bytes.subspan(now);
    if (diagnostics_bytes_ < kDiagnosticsMax && !(last && bytes.empty())) continue;
    const std::string_view said = as_text({diagnostics_->data(), diagnostics_bytes_});
    const bool caught = std::ranges::any_of(pass_.caught_diagnostics, [&](std::string_view text) {
      return said.find(text) != std::string_view::npos;
    });
    flush_diagnostics();
    if (caught && exchange_ != nullptr && !respond_due_ && !responded_) {
      return attempt_failed(kNextInvalidHeader, 502);
    }
  }
}

void GatewayRequest::flush_diagnostics() {
  if (diagnostics_bytes_ == 0) return;
  std::string_view said = as_text({diagnostics_->data(), std::exchange(diagnostics_bytes_, 0)});
  while (!said.empty() && (said.back() == '\n' || said.back() == '\r')) said.remove_suffix(1);
  if (said.empty()) return;
  if (exchange_ == nullptr) {
    // Its client has gone, but the operator still wants to know.
    corehttpd::log(nullptr, LogLevel::kError, "{} sent in stderr: \"{}\" after the client had gone",
                   pass_.protocol->title(), said);
    return;
  }
  log(LogLevel::kError, "{} sent in stderr: \"{}\" while {}", pass_.protocol->title(), said,
      respond_due_ || responded_ ? "reading upstream" : "reading response header from upstream");
}

// --- The spool.

// Stops the origin when the spool is full. A body whose end is known to be here is read on, for the
// end of the origin's message.
void GatewayRequest::note_pressure() {
  if (!responded_ || spool_.ended() || !spool_.full()) return;
  connection_->stop_receiving();
  loop_.cancel(read_timer_);
}

void GatewayRequest::on_spool_ready() {
  if (exchange_ != nullptr && responded_) exchange_->transport().body_ready();
}

void GatewayRequest::on_spool_room() {
  if (connection_ == nullptr || codec_ == nullptr || rate_timer_.scheduled()) return;
  connection_->start_receiving();
  if (send_over_) arm_read_timer();
}

void GatewayRequest::on_spool_to_file() {
  // A slow client may take several files one after another; one line says it all.
  if (std::exchange(spooled_, true)) return;
  log(LogLevel::kWarn, "an upstream response is buffered to a temporary file in {} while {}",
      settings().temp_path.empty() ? exchange_->services().body_temp_path : settings().temp_path,
      "reading upstream");
}

void GatewayRequest::on_spool_file_error(const char* operation, int errno_value) {
  log(LogLevel::kCrit, "{} of a temporary file in \"{}\" failed {} while reading upstream",
      operation,
      exchange_ == nullptr || !settings().temp_path.empty() ? settings().temp_path
                                                            : exchange_->services().body_temp_path,
      errno_text(errno_value));
}

}  // namespace corehttpd::upstream
