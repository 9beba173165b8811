// A worker without sockets: what an Exchange needs, with settings that tests fill in and a
// transport that notes what it was told.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/target.h"

namespace corehttpd::http::testing {

// Notes head and body; the body is pulled by drain().
class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(const ConnectionInfo& connection) : connection_(connection) {}
  void send_informational(std::uint16_t status, const FieldList&) override {
    informational.push_back(status);
  }
  void send_head(const ResponseHead& response, BodySource* body) override {
    head_sent = true;
    head = response;
    source = body;
  }
  void body_ready() override { ++ready_calls; }
  void grant(std::size_t bytes) override { granted += bytes; }
  void reset(const Error& error) override {
    reset_error = error;
    was_reset = true;
  }
  const ConnectionInfo& connection() const override { return connection_; }

  // Reads the body as far as it goes. True at its end.
  bool drain(std::size_t bytes_max = SIZE_MAX) {
    while (source != nullptr) {
      Segment segments[4];
      const auto outcome = source->read(segments, bytes_max, Forms::kMemory);
      if (!outcome) {
        body_failed = true;
        source = nullptr;
        return false;
      }
      for (std::uint32_t i = 0; i < outcome->segments; ++i) body.append(segments[i].view());
      if (outcome->next == Next::kBlocked) return false;
      if (outcome->next == Next::kEnd) source = nullptr;
    }
    return true;
  }

  std::vector<std::uint16_t> informational;
  bool head_sent = false, was_reset = false, body_failed = false;
  ResponseHead head;
  BodySource* source = nullptr;
  std::string body;
  int ready_calls = 0;
  std::size_t granted = 0;
  Error reset_error;

 private:
  const ConnectionInfo& connection_;
};

// Settings of up to kSlots types; each type's index is given at first use, for the whole test
// program.
class FakeSettings {
 public:
  static constexpr std::size_t kSlots = 16;
  template <class S>
  S& add() {
    if (conf::SettingsIndex<S>::value == SIZE_MAX) conf::SettingsIndex<S>::value = next_index()++;
    S* settings = arena_.make<S>();
    slots_[conf::SettingsIndex<S>::value] = settings;
    return *settings;
  }
  conf::SettingsView view() const { return conf::SettingsView(slots_); }

 private:
  static std::size_t& next_index() {
    static std::size_t next = 0;
    return next;
  }
  Arena arena_;
  const void* slots_[kSlots] = {};
};

// Locations by exact URI; what is not among them falls to the site's own settings.
class FakeSites final : public SiteSelector {
 public:
  explicit FakeSites(const Site& site) : site_(site) {}
  void add(std::string_view uri, const Location& location) {
    locations_.push_back({uri, &location});
  }
  const Site& default_site(const Endpoint&) const override { return site_; }
  const Site& select_site(const Endpoint&, std::string_view, Exchange&) const override {
    return site_;
  }
  LocationMatch find_location(Exchange& exchange) const override {
    return find(exchange, exchange.uri()) ? LocationMatch::kFound : LocationMatch::kNone;
  }
  bool find_named_location(Exchange& exchange, std::string_view name) const override {
    return find(exchange, name);
  }

 private:
  bool find(Exchange& exchange, std::string_view name) const {
    for (const auto& [uri, location] : locations_) {
      if (uri != name) continue;
      exchange.set_location(location, location->settings);
      return true;
    }
    exchange.set_location(nullptr, site_.settings);
    return false;
  }
  const Site& site_;
  std::vector<std::pair<std::string_view, const Location*>> locations_;
};

// Answers with the status and no body.
class PlainErrors final : public ErrorResponder {
 public:
  StepOutcome respond(Exchange& exchange, std::uint16_t status) override {
    statuses.push_back(status);
    exchange.response().status = status;
    exchange.respond(nullptr);
    return StepOutcome::answered();
  }
  std::vector<std::uint16_t> statuses;
};

class NoteLog final : public RequestLog {
 public:
  void log(Exchange& exchange) override {
    lines.push_back(std::string(exchange.uri()) + " " + std::to_string(exchange.response().status));
  }
  std::vector<std::string> lines;
};

class NoCounters final : public Counters {
 public:
  void request_started() override {}
  void connection_accepted() override {}
  void connection_closed() override {}
  void activity(Activity, int) override {}
  Snapshot snapshot() const override { return {}; }
};

struct FakeWorker {
  explicit FakeWorker(std::size_t blocks_max = SIZE_MAX)
      : core(settings.add<CoreSettings>()), blocks(blocks_max) {
    core.error_log = &quiet;
    site.settings = settings.view();
    site.name = "example.org";
    endpoint.address = IpAddress::parse("127.0.0.1");
    connection.peer = IpAddress::parse("192.0.2.7");
    connection.local = endpoint.address;
    connection.endpoint = &endpoint;
    connection.number = 1;
  }
  void run_turn() {
    while (turn.run()) {
    }
  }

  LogTarget quiet{.fd = -1, .level = LogLevel::kDebug};
  FakeSettings settings;
  CoreSettings& core;
  Site site;
  Endpoint endpoint;
  ConnectionInfo connection;
  FakeSites sites{site};
  PlainErrors plain_errors;
  NoteLog log;
  NoCounters counters;
  TurnQueue turn;
  BlockPool blocks;
  Clock clock;
  alignas(16) std::byte loop_storage[16] = {};  // http never calls the loop; it only hands it on.
  Services services{*reinterpret_cast<io::Loop*>(loop_storage),
                    turn,
                    blocks,
                    clock,
                    sites,
                    plain_errors,
                    log,
                    counters,
                    {}};
};

// An exchange with a request line, not yet started.
struct FakeRequest {
  explicit FakeRequest(FakeWorker& worker, std::string_view target = "/",
                       Method method = Method::kGet)
      : FakeRequest(worker.services, worker.connection, target, method) {}
  FakeRequest(Services& services, const ConnectionInfo& connection, std::string_view target,
              Method method)
      : transport(connection), exchange(services, transport, connection) {
    RequestHead& request = exchange.request();
    request.method = method;
    request.method_text = to_string(method);
    request.target = target;
    const auto parsed = parse_target(exchange.arena(), target);
    request.raw_path = parsed->raw_path;
    request.query = parsed->query;
    request.authority = "example.org";
    request.request_line = exchange.arena().concat(to_string(method), " ", target, " HTTP/1.1");
  }
  void field(std::string_view name, std::string_view value) {
    exchange.request().fields.add(exchange.arena(), name, value);
  }
  void push(std::string_view text, bool last) {
    exchange.body().on_data(std::as_bytes(std::span(text.data(), text.size())), last);
  }
  FakeTransport transport;
  Exchange exchange;
};

}  // namespace corehttpd::http::testing
