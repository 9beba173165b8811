// Runs exchanges without a network: a transport that keeps what it is given, and the services of a
// worker that does nothing by itself. Header-only, for every module's unit tests:
//
//   TestServices services(selector);
//   TestRequest request(services, "GET", "/a?b=c", {{"Host", "example.org"}});
//   request.run();
//   EXPECT_EQ(request.transport.status, 200);
//   EXPECT_EQ(request.transport.body, "hello");
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "corehttpd/base/block.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/message.h"
#include "corehttpd/http/services.h"
#include "corehttpd/http/site.h"

namespace corehttpd::test {

// Keeps the response. The body is pulled by pull(), never from within send_head().
class FakeTransport final : public http::Transport {
 public:
  http::ConnectionInfo info;
  http::Endpoint endpoint;
  // What was sent; views are copied, so that they may be read after the exchange has gone.
  std::vector<std::uint16_t> informational;
  int heads = 0;
  std::uint16_t status = 0;
  std::optional<std::uint64_t> content_length;
  std::string content_type, location, etag;
  std::int64_t last_modified = -1;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  bool has_source = false;
  bool ended = false;  // The source said kEnd, or there was none.
  bool ready = false;  // body_ready() was called since the last pull.
  bool source_failed = false;
  std::size_t granted = 0;
  std::optional<Error> reset_with;

  FakeTransport() {
    endpoint.address = IpAddress::parse("127.0.0.1");
    endpoint.address.port = 80;
    endpoint.text = "127.0.0.1:80";
    info.number = 1;
    info.requests = 1;
    info.peer = IpAddress::parse("192.0.2.7");
    info.peer.port = 50000;
    info.local = endpoint.address;
    info.endpoint = &endpoint;
  }

  void send_informational(std::uint16_t informational_status, const http::FieldList&) override {
    informational.push_back(informational_status);
  }
  void send_head(const http::ResponseHead& head, http::BodySource* source) override {
    ++heads;
    status = head.status;
    content_length = head.content_length;
    content_type = head.content_type;
    location = head.location;
    etag = head.etag;
    last_modified = head.last_modified;
    for (const http::Field& field : head.fields) {
      fields.emplace_back(field.name, field.value);
    }
    source_ = source;
    has_source = source != nullptr;
    ended = source == nullptr;
  }
  void body_ready() override { ready = true; }
  void grant(std::size_t bytes) override { granted += bytes; }
  void reset(const Error& error) override { reset_with = error; }
  const http::ConnectionInfo& connection() const override { return info; }

  // Reads until the source ends, blocks or fails. File segments are noted as "<file>".
  void pull(std::size_t bytes_max = 65536, http::Forms forms = http::Forms::kMemory) {
    ready = false;
    while (!ended && source_ != nullptr) {
      std::array<Segment, 8> segments;
      const auto outcome = source_->read(segments, bytes_max, forms);
      if (!outcome) {
        source_failed = true;
        return;
      }
      for (std::uint32_t i = 0; i < outcome->segments; ++i) {
        body.append(segments[i].in_memory() ? segments[i].view() : std::string_view("<file>"));
      }
      if (outcome->next == http::Next::kEnd) ended = true;
      if (outcome->next == http::Next::kBlocked) return;
    }
  }
  std::string field(std::string_view name) const {
    for (const auto& [key, value] : fields) {
      if (key == name) return value;
    }
    return {};
  }

 private:
  http::BodySource* source_ = nullptr;
};

// One site without anything, for tests that need no routing.
class FixedSite final : public http::SiteSelector {
 public:
  http::Site site;
  http::Location location;
  const http::Site& default_site(const http::Endpoint&) const override { return site; }
  const http::Site& select_site(const http::Endpoint&, std::string_view,
                                http::Exchange&) const override {
    return site;
  }
  http::LocationMatch find_location(http::Exchange& exchange) const override {
    exchange.set_location(&location, location.settings);
    return http::LocationMatch::kFound;
  }
  bool find_named_location(http::Exchange& exchange, std::string_view) const override {
    exchange.set_location(&location, location.settings);
    return true;
  }
};

// Answers errors with the status alone.
class PlainErrors final : public http::ErrorResponder {
 public:
  std::vector<std::uint16_t> statuses;
  http::StepOutcome respond(http::Exchange& exchange, std::uint16_t status) override {
    statuses.push_back(status);
    exchange.response().status = status;
    exchange.respond(nullptr);
    return http::StepOutcome::answered();
  }
};

class CountingLog final : public http::RequestLog {
 public:
  int lines = 0;
  void log(http::Exchange&) override { ++lines; }
};

class NoCounters final : public http::Counters {
 public:
  void request_started() override {}
  void connection_accepted() override {}
  void connection_closed() override {}
  void activity(Activity, int) override {}
  Snapshot snapshot() const override { return {}; }
};

struct TestServices {
  TurnQueue turn;
  BlockPool blocks;
  Clock clock;
  PlainErrors errors;
  CountingLog log;
  NoCounters counters;
  // Exchanges only pass the loop on: tests of what needs one use the simulated loop instead.
  alignas(std::max_align_t) std::byte no_loop[64] = {};
  http::Services services;
  // A step of the loop for a request that waits for something; false when there is nothing to wait
  // for. Set by those who have a loop.
  std::function<bool()> idle;

  explicit TestServices(const http::SiteSelector& sites,
                        std::span<const http::Transform* const> transforms = {})
      : TestServices(*reinterpret_cast<io::Loop*>(no_loop), sites, transforms) {}
  TestServices(io::Loop& loop, const http::SiteSelector& sites,
               std::span<const http::Transform* const> transforms = {})
      : services{.loop = loop,
                 .turn = turn,
                 .blocks = blocks,
                 .clock = clock,
                 .sites = sites,
                 .errors = errors,
                 .log = log,
                 .counters = counters,
                 .transforms = transforms} {}
};

// One request from its head to its log line.
class TestRequest {
 public:
  using Fields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // The texts must outlive it (literals). A field "Host" is also the authority.
  TestRequest(TestServices& services, std::string_view method, std::string_view target,
              Fields fields = {})
      : services_(services) {
    method_ = method;
    target_ = target;
    fields_.assign(fields.begin(), fields.end());
  }
  ~TestRequest() { finish(); }

  FakeTransport transport;

  http::Exchange& exchange() {
    if (!exchange_) make();
    return *exchange_;
  }
  // Runs the pipeline and the turns it asks for, then pulls the body.
  TestRequest& run() {
    exchange().start();
    turns();
    transport.pull();
    return *this;
  }
  // Turns of the loop until nothing is posted any more.
  void turns() {
    do {
      for (int i = 0; i < 100 && services_.turn.run(); ++i) {
      }
    } while (exchange_ && !exchange_->finished() && transport.heads == 0 && services_.idle &&
             services_.idle());
  }
  void finish() {
    if (exchange_ && !exchange_->finished()) {
      if (transport.heads > 0) {
        exchange_->on_sent();
      } else {
        exchange_->on_transport_lost(Error{Code::kClosed, Party::kClient, 0, "test"});
      }
      turns();
    }
  }

 private:
  void make() {
    exchange_.emplace(services_.services, transport, transport.info);
    http::RequestHead& head = exchange_->request();
    Arena& arena = exchange_->arena();
    head.method = http::parse_method(method_);
    head.method_text = method_;
    head.target = target_;
    const std::size_t question = target_.find('?');
    head.raw_path = target_.substr(0, question);
    head.has_query = question != std::string_view::npos;
    if (head.has_query) head.query = target_.substr(question + 1);
    head.request_line = arena.concat(method_, " ", target_, " HTTP/1.1");
    for (const auto& [name, value] : fields_) {
      head.fields.add(arena, name, value);
      if (name == "Host") head.authority = value;
    }
  }

  TestServices& services_;
  std::string_view method_, target_;
  std::vector<std::pair<std::string_view, std::string_view>> fields_;
  std::optional<http::Exchange> exchange_;
};

}  // namespace corehttpd::test
