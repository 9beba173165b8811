#include "corehttpd/http/exchange.h"

#include "corehttpd/base/check.h"
#include "corehttpd/http/absolute_location.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/request_id.h"
#include "corehttpd/http/target.h"
#include "corehttpd/http/tls_info.h"

namespace corehttpd::http {
namespace {

// RFC 9110 §9.2.1.
bool is_safe(Method method) {
  return method == Method::kGet || method == Method::kHead || method == Method::kOptions ||
         method == Method::kTrace;
}

// The second of a field that there is one of at most, as nginx has it: whoever looks at the first
// and whoever looks at the last would see two requests. Host and what frames the body are the
// protocols' to judge. nullptr: none.
const Field* find_repeated(const FieldList& fields) {
  constexpr auto bit = [](FieldName name) {
    return std::uint64_t{1} << static_cast<unsigned>(name);
  };
  constexpr std::uint64_t kSingle = bit(FieldName::kAuthorization) | bit(FieldName::kContentRange) |
                                    bit(FieldName::kIfRange) | bit(FieldName::kIfModifiedSince) |
                                    bit(FieldName::kIfUnmodifiedSince);
  std::uint64_t seen = 0;
  for (const Field& field : fields) {
    if ((bit(field.id) & kSingle & seen) != 0) return &field;
    seen |= bit(field.id);
  }
  return nullptr;
}

}  // namespace

Exchange::Exchange(Services& services, Transport& transport, const ConnectionInfo& connection,
                   Exchange* parent)
    : arena_(std::span<std::byte>(inline_), 4096),
      services_(services),
      transport_(transport),
      connection_(connection),
      parent_(parent),
      body_(*this),
      client_(parent == nullptr ? connection.peer : parent->client_),
      resume_(
          [](TurnTask& task) {
            auto& self = static_cast<ResumeTask&>(task);
            if (self.exchange.finished_) return;
            self.exchange.suspended_ = false;
            self.exchange.proceed(self.outcome);
          },
          *this) {
  if (parent == nullptr) {
    started_ms_ = services.clock.now_ms();
    started_wall_us_ = services.clock.wall_us();
    // A head that can't be read still needs limits, an error log and error pages.
    site_ = &services.sites.default_site(*connection.endpoint);
    settings_ = site_->settings;
  } else {
    started_ms_ = parent->started_ms_;
    started_wall_us_ = parent->started_wall_us_;
    site_ = parent->site_;
    settings_ = parent->settings_;
    host_ = parent->host_;
  }
}

Exchange::~Exchange() = default;

void Exchange::start() {
  services_.counters.request_started();
  log(LogLevel::kDebug, 0, "http request line: \"{}\"", request_.request_line);
  if (!choose_site()) {
    log(LogLevel::kInfo, 0, "client sent invalid host header while reading client request headers");
    return fail(400);
  }
  if (const std::uint16_t status = judge_connection(); status != 0) return fail(status);
  if (request_.method == Method::kUnknown && !is_method_name(request_.method_text)) {
    log(LogLevel::kInfo, 0, "client sent invalid method while reading client request line");
    return fail(400);
  }
  if (const Field* repeated = find_repeated(request_.fields); repeated != nullptr) {
    log(LogLevel::kInfo, 0, "client sent duplicate header line: \"{}: {}\"", repeated->name,
        repeated->value);
    return fail(400);
  }
  if (request_.raw_path == "*" && request_.method == Method::kOptions) return answer_for_server();
  const auto uri =
      normalize_path(arena_, request_.raw_path, settings<CoreSettings>().merge_slashes);
  if (!uri) {
    log(LogLevel::kInfo, 0, "client sent invalid request while reading client request line");
    return fail(400);
  }
  uri_ = *uri;
  args_ = request_.query;
  if (request_.unknown_expectation) return fail(417);
  if (request_.method == Method::kTrace || request_.method == Method::kConnect) {
    response_.close_connection = true;  // What follows may have been meant for somebody else.
    return fail(405);
  }
  enter_site();
}

// "OPTIONS *": a ping of the server as a whole (RFC 9110 §9.3.7). No location has a say.
void Exchange::answer_for_server() {
  uri_ = request_.raw_path;
  response_.status = 200;
  response_.content_length = 0;
  response_.fields.add(arena_, FieldName::kOther, "Allow", "GET, HEAD, POST, OPTIONS");
  respond(nullptr);
}

bool Exchange::choose_site() {
  if (request_.authority.empty()) {
    site_ = &services_.sites.select_site(*connection_.endpoint, {}, *this);
    settings_ = site_->settings;
    return true;
  }
  const auto host = parse_host(arena_, request_.authority);
  if (!host) return false;
  host_ = *host;
  site_ = &services_.sites.select_site(*connection_.endpoint, host_, *this);
  settings_ = site_->settings;
  return true;
}

// What TLS, or its lack, makes of a request: 0, or the status that it fails with.
std::uint16_t Exchange::judge_connection() {
  if (connection_.plain_to_tls) {
    log(LogLevel::kInfo, 0,
        "client sent plain HTTP request to HTTPS port while reading client request headers");
    return 497;
  }
  if (connection_.tls == nullptr) return 0;
  const char* why = "";
  const std::uint16_t status = connection_.tls->judge(*site_, is_safe(request_.method), why);
  if (status == 0) return 0;
  log(LogLevel::kInfo, 0, "{} while reading client request headers", why);
  if (status == 421) {
    // Nothing of the site that was asked for is shown, not even its error pages.
    site_ = &connection_.tls->site();
    settings_ = site_->settings;
  }
  return status;
}

void Exchange::start_failed(std::uint16_t status) {
  services_.counters.request_started();
  choose_site();  // The client's own site has the error pages, if the host is known already.
  // What was no request at all is told that, and not that it came in clear text (as nginx does).
  const std::uint16_t judged = connection_.plain_to_tls ? 0 : judge_connection();
  fail(judged != 0 ? judged : status);
}

void Exchange::start_internal(const Site& site) {
  site_ = &site;
  settings_ = site.settings;
  internal_ = true;
  enter_site();
}

void Exchange::enter_site() { proceed(StepOutcome{StepOutcome::Kind::kRedirect, 0}); }

void Exchange::begin_server_rewrite() {
  stage_ = Stage::kServerRewrite;
  location_ = nullptr;
  settings_ = site_->settings;
  pipeline_ = site_->rewrite;
  step_ = 0;
}

// Chooses the location and makes its pipeline current. The outcome is kContinue, or a failure of
// the location itself.
StepOutcome Exchange::begin_location() {
  stage_ = Stage::kLocation;
  step_ = 0;
  bool add_slash = false;
  if (!redirect_name_.empty()) {
    const std::string_view name = std::exchange(redirect_name_, {});
    if (!services_.sites.find_named_location(*this, name)) {
      log(LogLevel::kError, 0, "could not find named location \"{}\"", name);
      return StepOutcome::fail(500);
    }
  } else {
    add_slash = services_.sites.find_location(*this) == LocationMatch::kAddSlash;
  }
  pipeline_ = location_ == nullptr ? Pipeline{} : location_->pipeline;
  if (location_ != nullptr) {
    log(LogLevel::kDebug, 0, "using configuration \"{}{}\"", location_->exact ? "=" : "",
        location_->name);
  }
  if (location_ != nullptr && location_->internal && !internal_) return StepOutcome::fail(404);
  if (!check_body_size()) return StepOutcome::fail(413);
  if (add_slash) {
    const std::string_view path = escape_uri(arena_, uri_);
    response_.location =
        args_.empty() ? arena_.concat(path, "/") : arena_.concat(path, "/?", args_);
    return StepOutcome::fail(301);
  }
  return StepOutcome::proceed();
}

bool Exchange::check_body_size() {
  const std::uint64_t limit = settings<CoreSettings>().client_max_body_size;
  // An error page for a body that was too large must not fail for the same reason again.
  if (limit == 0 || !request_.content_length || *request_.content_length <= limit ||
      error_status_ != 0)
    return true;
  if (is_subrequest()) return true;
  log(LogLevel::kError, 0,
      "client intended to send too large body: {} bytes (client_max_body_size {})",
      *request_.content_length, limit);
  return false;
}

// Carries the exchange on from an outcome until it is answered or suspended. A loop, so that
// redirects never nest.
void Exchange::proceed(StepOutcome outcome) {
  for (;;) {
    switch (outcome.kind) {
      case StepOutcome::Kind::kContinue:
        outcome = next_step();
        break;
      case StepOutcome::Kind::kAnswered:
        return;
      case StepOutcome::Kind::kSuspend:
        suspended_ = true;
        return;
      case StepOutcome::Kind::kRepeat:
        CORE_CHECK(step_ > 0);
        --step_;
        outcome = next_step();
        break;
      case StepOutcome::Kind::kRelocate:
        outcome = count_uri_change() ? begin_location() : StepOutcome::fail(500);
        break;
      case StepOutcome::Kind::kRedirect:
        if (stage_ != Stage::kNew && !count_uri_change()) {
          outcome = StepOutcome::fail(500);
        } else if (!redirect_name_.empty()) {
          outcome = begin_location();
        } else {
          begin_server_rewrite();
          outcome = StepOutcome::proceed();
        }
        break;
      case StepOutcome::Kind::kFail:
        if (head_sent_)
          return reset(Error{Code::kInternal, Party::kSelf, outcome.status,
                             "failing after the head was sent"});
        outcome = services_.errors.respond(*this, outcome.status);
        break;
    }
    if (finished_) return;
  }
}

StepOutcome Exchange::next_step() {
  while (step_ < pipeline_.steps.size()) {
    const StepOutcome outcome = pipeline_.steps[step_++]->run(*this);
    if (outcome.kind != StepOutcome::Kind::kContinue) return outcome;
  }
  if (stage_ == Stage::kServerRewrite) return begin_location();
  // No content step took it.
  if (!uri_.empty() && uri_.back() == '/') return StepOutcome::fail(403);
  return StepOutcome::fail(404);
}

bool Exchange::count_uri_change() {
  if (uri_changes_ < kUriChangesMax) {
    ++uri_changes_;
    return true;
  }
  redirect_name_ = {};
  log(LogLevel::kError, 0, "rewrite or internal redirection cycle while processing \"{}\"", uri_);
  return false;
}

void Exchange::fail(std::uint16_t status) { proceed(StepOutcome::fail(status)); }

void Exchange::redirect(std::string_view uri, std::string_view args) {
  uri_ = uri;
  args_ = args;
  redirect_name_ = {};
  internal_ = true;
}

void Exchange::redirect_named(std::string_view name) {
  redirect_name_ = name;
  internal_ = true;
}

void Exchange::resume(StepOutcome outcome) {
  if (finished_) return;
  resume_.outcome = outcome;
  services_.turn.post(resume_);
}

void Exchange::respond(BodySource* body) {
  CORE_CHECK(!head_sent_);
  if (error_status_ != 0) response_.status = error_status_;
  if (!response_.location.empty() && !is_subrequest())
    response_.location = absolute_location(*this);
  const bool refused_before = refused();
  for (const Transform* transform : services_.transforms) {
    body = transform->apply(*this, body);
    if (refused() && !refused_before) return give_way(body);
  }
  if (never_has_body(response_.status)) response_.content_length.reset();
  const bool no_body = request_.method == Method::kHead || never_has_body(response_.status);
  if (body != nullptr && no_body) {
    body->cancel();
    body = nullptr;
  } else if (body == nullptr && !no_body) {
    response_.content_length = 0;
  }
  stage_ = Stage::kAnswered;
  head_sent_ = true;
  source_ = body;
  if (body_.state() == RequestBody::State::kUnread) body_.discard();
  log(LogLevel::kDebug, 0, "http response head: {}", response_.status);
  transport_.send_head(response_, body);
}

void Exchange::refuse(std::uint16_t status, FieldList fields) {
  CORE_CHECK(!refused());
  refused_ = status;
  response_ = ResponseHead{};
  response_.fields = fields;
}

// The step that called respond() believes that it has answered; the failure is a turn's end later.
void Exchange::give_way(BodySource* body) {
  if (body != nullptr) body->cancel();
  suspended_ = true;
  resume(StepOutcome::fail(refused_));
}

void Exchange::reset(const Error& error) { transport_.reset(error); }

void Exchange::on_sent() {
  if (finished_) return;
  source_ = nullptr;
  complete_ = true;
  finish();
}

void Exchange::on_transport_lost(const Error& error) {
  if (finished_) return;
  if (BodySource* source = std::exchange(source_, nullptr)) source->cancel();
  if (response_.status == 0) response_.status = 499;  // nginx's "client closed request".
  finished_ = true;                                   // Hooks must not resume or answer any more.
  abort_hooks(error);
  finished_ = false;
  finish();
}

void Exchange::abort_hooks(const Error& error) {
  while (AbortHook* hook = hooks_.pop_front()) hook->abort(error);
}

void Exchange::finish() {
  finished_ = true;
  log(LogLevel::kDebug, 0, "http request done: {}, {} bytes sent", response_.status, bytes_sent_);
  resume_.unlink();
  // An upload may still be running towards an origin that answered early; nobody needs it any more.
  abort_hooks(Error{Code::kCancelled, Party::kSelf, 0, "response complete"});
  if (parent_ == nullptr || settings<CoreSettings>().log_subrequest) services_.log.log(*this);
}

std::string_view Exchange::client_text() {
  if (client_text_.empty()) {
    char text[IpAddress::kTextMax];
    client_text_ = arena_.copy(client_.format(text));
  }
  return client_text_;
}

void Exchange::set_client(const IpAddress& address) {
  client_ = address;
  client_text_ = {};
}

const LogTarget* Exchange::log_target() const {
  return settings_ ? settings_.get<CoreSettings>().error_log : nullptr;
}

void Exchange::describe(LogFields& fields) const {
  char text[IpAddress::kTextMax];
  fields.add("client", client_.format(text), false);
  if (site_ != nullptr) fields.add("server", site_->name, false);
  const Exchange* main = this;
  while (main->parent_ != nullptr) main = main->parent_;
  if (!main->request_.request_line.empty()) {
    fields.add("request", main->request_.request_line, true);
  }
  if (main != this) fields.add("subrequest", uri_, true);
  if (!upstream_text_.empty()) fields.add("upstream", upstream_text_, true);
  if (!main->request_.authority.empty()) fields.add("host", main->request_.authority, true);
  const std::string_view referrer = main->request_.fields.value(FieldName::kReferer);
  if (!referrer.empty()) fields.add("referrer", referrer, true);
  if (log_options().request_id) {
    // Made at first use, which may be this.
    fields.add("request_id", request_id(const_cast<Exchange&>(*this)), true);
  }
}

}  // namespace corehttpd::http
