// Requests: heads, bodies with credit, limits.
#include <gtest/gtest.h>

#include "unit/proto/h2_fixture.h"

namespace corehttpd::h2::testing {
namespace {

class H2Request : public ::testing::Test {
 protected:
  // Answers /echo with what the request's head says.
  void SetUp() override {
    worker.handle("/echo", [this](http::Exchange& exchange) {
      const http::RequestHead& head = exchange.request();
      line = head.request_line;
      authority = head.authority;
      target = head.target;
      args = exchange.args();
      for (const http::Field& field : head.fields) fields.emplace_back(field.name, field.value);
      return answer(exchange, "ok");
    });
  }
  int status_of(const Client::Fields& request) {
    const auto id = client.submit(request);
    client.pump();
    return client.replies[id].closed && client.replies[id].status == 0 ? -1
                                                                       : client.replies[id].status;
  }
  Worker worker;
  Client client{worker};
  std::string line, authority, target, args;
  Client::Fields fields;
};

TEST_F(H2Request, HeadIsNeutral) {
  client.start();
  const auto id = client.get(
      "/echo?x=%20y", {{"cookie", "a=1"}, {"accept", "*/*"}, {"cookie", "b=2"}, {"x_under", "1"}});
  client.pump();
  EXPECT_EQ(client.replies[id].status, 200);
  EXPECT_EQ(line, "GET /echo?x=%20y HTTP/2.0");
  EXPECT_EQ(target, "/echo?x=%20y");
  EXPECT_EQ(args, "x=%20y");
  EXPECT_EQ(authority, "example.org");
  // Underscores are dropped (case 6), crumbs are one field.
  EXPECT_EQ(fields,
            (Client::Fields{{"host", "example.org"}, {"accept", "*/*"}, {"cookie", "a=1; b=2"}}));
}

TEST_F(H2Request, UnderscoresWhenAllowed) {
  worker.core.underscores_in_headers = true;
  client.start();
  client.get("/echo", {{"x_under", "1"}, {"x.dot", "1"}});
  client.pump();
  EXPECT_EQ(fields, (Client::Fields{{"host", "example.org"}, {"x_under", "1"}}));
}

TEST_F(H2Request, HostAndAuthorityMustAgree) {
  client.start();
  EXPECT_EQ(status_of({{":method", "GET"},
                       {":scheme", "http"},
                       {":authority", "a.example"},
                       {":path", "/echo"},
                       {"host", "A.example"}}),
            200);
  EXPECT_EQ(fields, (Client::Fields{{"host", "a.example"}}));
  EXPECT_EQ(status_of({{":method", "GET"},
                       {":scheme", "http"},
                       {":authority", "a.example"},
                       {":path", "/echo"},
                       {"host", "b.example"}}),
            400);
  EXPECT_EQ(
      status_of(
          {{":method", "GET"}, {":scheme", "http"}, {":path", "/echo"}, {"host", "b.example"}}),
      200);
  EXPECT_EQ(authority, "b.example");
}

TEST_F(H2Request, Malformed) {
  client.start();
  const auto get = [](std::string path) {
    return Client::Fields{
        {":method", "GET"}, {":scheme", "http"}, {":authority", "example.org"}, {":path", path}};
  };
  EXPECT_EQ(status_of(get("/index.php%00.txt")), 400);  // Case 15.
  EXPECT_EQ(status_of(get("/../../etc")), 400);
  EXPECT_EQ(status_of({{":method", "GET"},
                       {":scheme", "http"},
                       {":authority", "user@example.org"},
                       {":path", "/echo"}}),
            400);
  EXPECT_EQ(status_of({{":method", "CONNECT"}, {":authority", "example.org:443"}}), 405);
  EXPECT_EQ(status_of(get("/echo")), 200);  // The connection is unharmed.
}

TEST_F(H2Request, MalformedByTheProtocolIsAnsweredAndReset) {
  client.start();
  // The client library refuses to send such fields: the bytes are made by hand.
  // HPACK: :method GET, :scheme http, :path / (indexed); then a literal "transfer-encoding:
  // chunked" without indexing.
  std::string block(
      "\x82\x86\x84\x41\x01"
      "a",
      6);
  block.append(std::string("\x00\x11", 2))
      .append("transfer-encoding")
      .append("\x07")
      .append("chunked");
  client.push_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, 1, block);
  worker.loop.run_until_blocked();
  const std::string out = client.peer().take();
  ASSERT_GT(out.size(), 26u);
  EXPECT_EQ(out[3], NGHTTP2_HEADERS);
  EXPECT_EQ(out[out.size() - 10], NGHTTP2_RST_STREAM);
  EXPECT_EQ(out.back(), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(worker.counters.requests, 1);
  EXPECT_EQ(worker.log.lines.size(), 1u);
}

TEST_F(H2Request, ListLimitCountsNamesValuesAndOverhead) {
  worker.core.large_header_buffers_number = 1;
  worker.core.large_header_buffers_size = 5000;
  client.start();
  EXPECT_EQ(client.peer_settings[NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE], 5000u);
  // :method GET 42, :scheme http 43, :authority example.org 53, :path /echo 42: 180. x: 33 and its
  // value.
  const auto with = [this](std::size_t bytes) {
    return status_of({{":method", "GET"},
                      {":scheme", "http"},
                      {":authority", "example.org"},
                      {":path", "/echo"},
                      {"x", std::string(bytes, 'v')}});
  };
  EXPECT_EQ(with(4787), 200);
  EXPECT_EQ(with(4788), 431);
  EXPECT_EQ(with(30'000), -1);  // Far beyond: reset.
  EXPECT_EQ(with(1), 200);
  // A small limit is one of names and values.
  worker.core.large_header_buffers_size = 400;
  EXPECT_EQ(with(347), 200);
  EXPECT_EQ(with(348), 431);
}

// Collects a body as a step does.
struct BodyStep final : http::RequestBody::Waiter {
  http::Exchange* exchange = nullptr;
  std::string text;
  std::uint16_t status = 1;
  void on_body(std::uint16_t result) override {
    status = result;
    if (result != 0) return exchange->resume(http::StepOutcome::fail(result));
    http::BodySource* reader = exchange->body().reader(exchange->arena());
    for (;;) {
      Segment segment;
      const auto outcome = reader->read({&segment, 1}, 65536, http::Forms::kMemory);
      ASSERT_TRUE(outcome);
      if (outcome->segments != 0) text.append(segment.view());
      if (outcome->next == http::Next::kEnd) break;
    }
    answer(*exchange, "got it");
    exchange->resume(http::StepOutcome::answered());
  }
};

class H2Body : public ::testing::Test {
 protected:
  void SetUp() override {
    worker.handle("/post", [this](http::Exchange& exchange) {
      held = &exchange;
      step.exchange = &exchange;
      if (!hold) exchange.body().buffer(step);
      return http::StepOutcome::suspend();
    });
  }
  Worker worker;
  Client client{worker};
  BodyStep step;
  http::Exchange* held = nullptr;
  bool hold = false;
};

TEST_F(H2Body, WithAndWithoutLength) {  // Case 14.
  client.start();
  const auto a = client.post("/post", "hello", {{"content-length", "5"}});
  client.pump();
  EXPECT_EQ(step.text, "hello");
  EXPECT_EQ(client.replies[a].body, "got it");
  step.text.clear();
  client.post("/post", "world");
  client.pump();
  EXPECT_EQ(step.text, "world");
  step.text.clear();
  step.status = 1;
  const auto c = client.post("/post", "");  // HEADERS without END_STREAM, then an empty DATA frame.
  client.pump();
  EXPECT_EQ(step.status, 0);
  EXPECT_EQ(client.replies[c].body, "got it");
}

TEST_F(H2Body, LargerThanEveryWindow) {
  worker.core.client_max_body_size = 0;
  std::string text(5'000'000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  client.start();
  const auto id = client.post("/post", text);
  client.pump();
  EXPECT_TRUE(step.text == text);
  EXPECT_EQ(client.replies[id].body, "got it");
}

TEST_F(H2Body, WaitsUntilAskedFor) {
  hold = true;
  const std::string text(200'000, 'y');
  client.start();
  const auto id = client.post("/post", text);
  client.pump();
  // No more than the protocol's first window was accepted: the rest waits at the client.
  EXPECT_EQ(nghttp2_session_get_stream_remote_window_size(client.session(), id), 0);
  held->body().buffer(step);
  client.pump();
  EXPECT_TRUE(step.text == text);
  EXPECT_EQ(client.replies[id].body, "got it");
}

TEST_F(H2Body, AnUploadNobodyReadsDoesNotStallOthers) {
  hold = true;
  client.start();
  const auto first = client.post("/post", std::string(200'000, 'y'));
  client.pump();
  http::Exchange* stalled = held;
  hold = false;
  const std::string text(300'000, 'z');
  Client::Fields none;
  const auto second = client.post("/post", text);
  client.pump();
  EXPECT_TRUE(step.text == text);
  EXPECT_EQ(client.replies[second].body, "got it");
  // When the first one is given up, its bytes are given back to the connection's window.
  stalled->reset(Error{});
  client.pump();
  EXPECT_TRUE(client.replies[first].closed);
  EXPECT_GT(nghttp2_session_get_remote_window_size(client.session()), 1024 * 1024 / 2 - 65535);
}

TEST_F(H2Body, EarlyAnswerEndsTheUploadWithoutError) {  // Case 24.
  worker.handle("/early", [](http::Exchange& exchange) { return answer(exchange, "no need"); });
  client.start();
  const auto id = client.open_post("/early");
  client.pump();
  EXPECT_EQ(client.replies[id].body, "no need");
  EXPECT_TRUE(client.replies[id].ended);
  // The reset comes later, so that no client reads it together with the answer.
  EXPECT_FALSE(client.replies[id].closed);
  const Milliseconds answered = worker.loop.clock().now_ms();
  while (!client.replies[id].closed && worker.loop.clock().now_ms() < answered + 1000) {
    worker.loop.run_once();
    client.take_in();
  }
  EXPECT_TRUE(client.replies[id].closed);
  EXPECT_EQ(client.replies[id].error_code, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_EQ(worker.log.lines.size(), 1u);
}

TEST_F(H2Body, AnsweredUploadThatGoesOnIsDropped) {
  worker.handle("/early", [](http::Exchange& exchange) { return answer(exchange, "no need"); });
  client.start();
  const auto id = client.post("/early", std::string(60'000, 'u'));
  client.pump();
  EXPECT_EQ(client.replies[id].body, "no need");
  EXPECT_TRUE(client.replies[id].closed);  // Both sides have ended.
  EXPECT_EQ(worker.loop.blocks().in_use(), 0u);
  EXPECT_GT(nghttp2_session_get_remote_window_size(client.session()), 1024 * 1024 / 2);
}

TEST_F(H2Body, ContinueComesWithTheFirstGrant) {  // Case 7.
  hold = true;
  client.start();
  const auto id = client.open_post("/post", {{"expect", "100-continue"}});
  client.pump();
  EXPECT_TRUE(client.replies[id].informational.empty());
  held->body().buffer(step);
  client.pump();
  EXPECT_EQ(client.replies[id].informational, std::vector<int>{100});
  client.upload_more(id, "late", true);
  client.pump();
  EXPECT_EQ(step.text, "late");
  EXPECT_EQ(client.replies[id].status, 200);
}

TEST_F(H2Body, RefusedBeforeContinue) {
  worker.core.client_max_body_size = 10;
  client.start();
  const auto id = client.open_post("/post", {{"expect", "100-continue"}, {"content-length", "11"}});
  client.pump();
  EXPECT_TRUE(client.replies[id].informational.empty());
  EXPECT_EQ(client.replies[id].status, 413);
}

TEST_F(H2Body, TooLargeWithoutLength) {
  worker.core.client_max_body_size = 1000;
  client.start();
  const auto id = client.post("/post", std::string(2000, 'x'));
  client.pump();
  EXPECT_EQ(client.replies[id].status, 413);
  EXPECT_EQ(client.replies[id].error_code, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

TEST_F(H2Body, SlowBodyTimesOut) {
  worker.core.client_body_timeout = 5000;
  client.start();
  const auto id = client.open_post("/post");
  client.pump();
  EXPECT_EQ(client.replies[id].status, 0);
  worker.loop.run_until_quiet();  // Time runs ahead to the deadlines.
  client.take_in();
  EXPECT_EQ(client.replies[id].status, 408);
}

TEST_F(H2Body, TrailersOfARequestDoNotStallIt) {  // Case 23.
  client.start();
  const auto id = client.open_post("/post");
  client.pump();
  const nghttp2_nv trailer{(std::uint8_t*)"x-sum", (std::uint8_t*)"1", 5, 1, 0};
  nghttp2_submit_headers(client.session(), NGHTTP2_FLAG_END_STREAM, id, nullptr, &trailer, 1,
                         nullptr);
  client.pump();
  EXPECT_EQ(client.replies[id].body, "got it");
}

}  // namespace
}  // namespace corehttpd::h2::testing
