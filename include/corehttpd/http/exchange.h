// One request and its response, whatever protocol carries it. Made and owned by the protocol stream
// (or a subrequest), owner of its arena. Handlers see nothing else of the server.
//
// Life: the transport fills request() and calls start() → site and location are chosen, the
// pipeline runs → a step or the error responder calls respond() → transforms →
// Transport::send_head() → the transport pulls the body → on_sent() → the access log → the owner
// destroys the exchange at the end of the turn. If the client goes away: on_transport_lost(), which
// runs the abort hooks of whatever suspended the exchange.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/log.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/message.h"
#include "corehttpd/http/pipeline.h"
#include "corehttpd/http/request_body.h"
#include "corehttpd/http/services.h"
#include "corehttpd/http/transport.h"

namespace corehttpd::http {

struct AbortTag {};

// Held by what suspended an exchange. on_abort means: the exchange is ending, forget it; its arena
// goes at the end of the turn. Destroying the hook withdraws it.
class AbortHook : public ListHook<AbortTag> {
 public:
  using OnAbort = void (*)(AbortHook&, const Error&);
  explicit AbortHook(OnAbort on_abort) : on_abort_(on_abort) {}
  void abort(const Error& error) { on_abort_(*this, error); }

 private:
  OnAbort on_abort_;
};

class Exchange final : public LogContext {
 public:
  static constexpr std::size_t kInlineArenaBytes = 2048;
  static constexpr int kUriChangesMax = 10;  // nginx: "rewrite or internal redirection cycle".
  static constexpr int kSubrequestDepthMax = 50;

  Exchange(Services& services, Transport& transport, const ConnectionInfo& connection,
           Exchange* parent = nullptr);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  // --- For the transport.
  // request() is complete. Chooses site and location and runs the pipeline.
  void start();
  // The head could not be accepted: answers status (400, 414, 431, 501, 505…) through error_page.
  // request() holds what was read.
  void start_failed(std::uint16_t status);
  // For subrequests: site and headers are the parent's, uri is set; runs from the server's rewrite
  // phase.
  void start_internal(const Site& site);
  // The whole response was handed to the kernel (or dropped as configured): writes the log.
  void on_sent();
  // The client is gone or the stream was reset: hooks, cancel of the source, log (499 if no status
  // was decided yet). Idempotent.
  void on_transport_lost(const Error& error);
  // Bytes put on the wire for this response; add as they are sent. head: status line and fields as
  // framed.
  void add_sent(std::uint64_t head_bytes, std::uint64_t body_bytes) {
    bytes_sent_ += head_bytes + body_bytes;
    body_bytes_sent_ += body_bytes;
  }
  bool finished() const { return finished_; }
  // All of the response was handed over, nothing broke: $request_completion.
  bool complete() const { return complete_; }

  // --- For everyone.
  Services& services() { return services_; }
  Transport& transport() { return transport_; }
  const ConnectionInfo& connection() const { return connection_; }
  Arena& arena() { return arena_; }
  RequestHead& request() { return request_; }
  const RequestHead& request() const { return request_; }
  ResponseHead& response() { return response_; }
  const ResponseHead& response() const { return response_; }
  RequestBody& body() { return body_; }
  Exchange* parent() const { return parent_; }
  Exchange& main() { return parent_ == nullptr ? *this : parent_->main(); }
  bool is_subrequest() const { return parent_ != nullptr; }
  bool internal() const {
    return internal_;
  }  // Reached by an internal redirect, error_page, index, try_files or as a subrequest.
  void set_internal() { internal_ = true; }
  const Site& site() const { return *site_; }
  const Location* location() const { return location_; }
  template <class S>
  const S& settings() const {
    return settings_.get<S>();
  }
  const conf::SettingsView& settings_view() const { return settings_; }
  Milliseconds started_ms() const { return started_ms_; }
  std::int64_t started_wall_us() const { return started_wall_us_; }
  // The address access rules and logs go by: the peer's, or what real_ip made of it.
  const IpAddress& client() const { return client_; }
  void set_client(const IpAddress& address);
  std::string_view client_text();  // Cached in the arena.
  // Lower case, without port and trailing dot; what the site was selected by. $host falls back to
  // the site's name.
  std::string_view host() const { return host_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t body_bytes_sent() const { return body_bytes_sent_; }

  // Decoded and normalized path ($uri) and arguments ($args).
  std::string_view uri() const { return uri_; }
  std::string_view args() const { return args_; }
  // Views must live in the arena. Changing the URI forgets its extension and such.
  void set_uri(std::string_view uri) { uri_ = uri; }
  void set_args(std::string_view args) { args_ = args; }

  // Captures of the last regex match, by number: captures()[1] is $1. Views into the subject, which
  // must live in the arena.
  std::span<const std::string_view> captures() const { return captures_; }
  void set_captures(std::span<const std::string_view> captures) { captures_ = captures; }

  // Called by SiteSelector.
  void set_location(const Location* location, const conf::SettingsView& settings) {
    location_ = location;
    settings_ = settings;
  }

  // Called by a rewrite-phase step ("if") or by limit_except: the rest of the request is inner's
  // business, whose pipeline, without rewrite steps of its own, takes the place of the steps that
  // were still to run.
  void enter_inner_location(const Location& inner) {
    set_location(&inner, inner.settings);
    pipeline_ = inner.pipeline;
    step_ = 0;
  }

  // --- For steps.
  // Sends the response head in response() and body (nullptr: none) through the transforms. Once per
  // exchange.
  void respond(BodySource* body);
  // For a transform, within respond(): the response must not go out (412, 416). Its body is
  // cancelled and the exchange fails with status at the end of the turn, through error_page.
  // fields: what the error's response carries besides. Once per exchange; refused() says whether it
  // has happened, so that an error page is not judged again.
  void refuse(std::uint16_t status, FieldList fields = {});
  bool refused() const { return refused_ != 0; }
  // Prepares an internal redirect; the step then returns StepOutcome::redirect() (or resumes with
  // it). "@name" goes to a named location. uri and args must live in the arena. Method stays unless
  // changed with set_method().
  void redirect(std::string_view uri, std::string_view args);
  void redirect_named(std::string_view name);
  void set_method(Method method) {
    request_.method = method;
    request_.method_text = to_string(method);
  }
  // Goes on after kSuspend, at the end of the turn. Exactly once per suspension.
  void resume(StepOutcome outcome);
  // False when the next redirect would be one too many: the error responder then uses its built-in
  // page.
  bool may_redirect() const { return uri_changes_ < kUriChangesMax; }
  // What suspends an exchange registers here.
  void on_abort(AbortHook& hook) { hooks_.push_back(hook); }
  // The work is done for this client only: when it closes its side before the head was sent, that
  // counts as going away, as with nginx's gateways. Without it a client may send its request, shut
  // down its side and wait.
  void set_ends_with_client(bool on) { ends_with_client_ = on; }
  bool ends_with_client() const { return ends_with_client_ && !head_sent_ && !finished_; }
  // The status that error_page is being served for, so that it is kept; 0: none.
  std::uint16_t error_status() const { return error_status_; }
  void set_error_status(std::uint16_t status) { error_status_ = status; }
  bool head_sent() const { return head_sent_; }
  // Something broke after the head was sent: ends the stream without a clean end.
  void reset(const Error& error);

  // Per-request state of a module, made on first use, in the arena. Key: the type. internal
  // redirects keep it.
  template <class T>
  T& state() {
    for (StateSlot* slot = states_; slot != nullptr; slot = slot->next) {
      if (slot->key == &StateKey<T>::key) return *static_cast<T*>(slot->object);
    }
    T* object = arena_.make<T>();
    states_ = arena_.make<StateSlot>(StateSlot{states_, &StateKey<T>::key, object});
    return *object;
  }
  template <class T>
  T* find_state() const {
    for (StateSlot* slot = states_; slot != nullptr; slot = slot->next) {
      if (slot->key == &StateKey<T>::key) return static_cast<T*>(slot->object);
    }
    return nullptr;
  }

  // --- Error log of this location, with ", client: …, server: …, request: …, host: …".
  template <class... A>
  void log(LogLevel level, int errno_value, fmt::format_string<A...> format,
           A&&... arguments) const {
    log_in(log_target(), level, *this, errno_value, format, std::forward<A>(arguments)...);
  }
  const LogTarget* log_target() const;
  // The origin that is being asked, as error log lines name it ("fastcgi://unix:/run/php.sock:");
  // lives as long as the exchange.
  void set_upstream_text(std::string_view text) { upstream_text_ = text; }
  void describe(LogFields& fields) const override;
  std::uint64_t connection_number() const override { return connection_.number; }
  bool debugged() const override { return connection_.debug; }

 private:
  template <class T>
  struct StateKey {
    static inline char key;
  };
  struct StateSlot {
    StateSlot* next;
    const void* key;
    void* object;
  };

  bool choose_site();
  std::uint16_t judge_connection();
  void answer_for_server();
  void enter_site();
  void begin_server_rewrite();
  StepOutcome begin_location();
  bool check_body_size();
  void proceed(StepOutcome outcome);
  StepOutcome next_step();
  bool count_uri_change();
  void fail(std::uint16_t status);
  void give_way(BodySource* body);
  void abort_hooks(const Error& error);
  void finish();

  alignas(16) std::byte inline_[kInlineArenaBytes];
  Arena arena_;
  Services& services_;
  Transport& transport_;
  const ConnectionInfo& connection_;
  Exchange* parent_;
  RequestHead request_;
  ResponseHead response_;
  RequestBody body_;
  const Site* site_ = nullptr;
  const Location* location_ = nullptr;
  conf::SettingsView settings_;
  std::string_view uri_, args_, host_, client_text_, redirect_name_, upstream_text_;
  std::span<const std::string_view> captures_;
  IpAddress client_;
  BodySource* source_ = nullptr;
  StateSlot* states_ = nullptr;
  List<AbortHook, AbortTag> hooks_;
  struct ResumeTask : TurnTask {
    ResumeTask(Run run, Exchange& owner) : TurnTask(run), exchange(owner) {}
    Exchange& exchange;
    StepOutcome outcome;
  } resume_;
  Pipeline pipeline_;
  std::size_t step_ = 0;
  enum class Stage : std::uint8_t {
    kNew,
    kServerRewrite,
    kLocation,
    kAnswered
  } stage_ = Stage::kNew;
  std::uint16_t error_status_ = 0;
  std::uint16_t refused_ = 0;
  std::uint8_t uri_changes_ = 0;
  bool ends_with_client_ = false, internal_ = false, head_sent_ = false, finished_ = false,
       suspended_ = false, complete_ = false;
  Milliseconds started_ms_ = 0;
  std::int64_t started_wall_us_ = 0;
  std::uint64_t bytes_sent_ = 0, body_bytes_sent_ = 0;
};

}  // namespace corehttpd::http
