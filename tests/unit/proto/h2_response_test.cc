// Responses: heads, bodies pulled frame by frame, their ends.
#include <gtest/gtest.h>

#include "unit/proto/h2_fixture.h"

namespace corehttpd::h2::testing {
namespace {

class H2Response : public ::testing::Test {
 protected:
  Worker worker;
  Client client{worker};
};

TEST_F(H2Response, AnswersWithHeadAndBody) {
  worker.handle("/a", [](http::Exchange& exchange) {
    exchange.response().etag = "\"e\"";
    exchange.response().last_modified = 0;
    exchange.response().accept_ranges = true;
    exchange.response().fields.add(exchange.arena(), "X-Powered-By", "PHP");
    return answer(exchange, "hello");
  });
  client.start();
  const auto id = client.get("/a?b=1");
  client.pump();
  const Reply& reply = client.replies[id];
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "hello");
  EXPECT_TRUE(reply.ended);
  EXPECT_EQ(reply.error_code, 0u);
  EXPECT_EQ(reply.field("content-length"), "5");
  EXPECT_EQ(reply.field("content-type"), "text/plain");
  EXPECT_EQ(reply.field("etag"), "\"e\"");
  EXPECT_EQ(reply.field("last-modified"), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(reply.field("date"), worker.loop.clock().http_date());
  EXPECT_EQ(reply.field("accept-ranges"), "bytes");
  EXPECT_EQ(reply.field("x-powered-by"), "PHP");
  EXPECT_EQ(reply.field("server").substr(0, 9), "corehttpd");
  ASSERT_EQ(worker.log.lines.size(), 1u);
  EXPECT_EQ(worker.log.lines[0], "/a 200");
}

TEST_F(H2Response, CountsBytesSent) {
  std::uint64_t sent = 0, body = 0;
  struct Log final : http::RequestLog {
    std::uint64_t &sent, &body;
    Log(std::uint64_t& s, std::uint64_t& b) : sent(s), body(b) {}
    void log(http::Exchange& exchange) override {
      sent = exchange.bytes_sent();
      body = exchange.body_bytes_sent();
    }
  } log{sent, body};
  http::Services services{worker.loop,
                          worker.base.turn(),
                          worker.loop.blocks(),
                          worker.loop.clock(),
                          worker.sites,
                          worker.errors,
                          log,
                          worker.counters,
                          {}};
  worker.handle("/a", [](http::Exchange& exchange) { return answer(exchange, "hello"); });
  nghttp2_submit_settings(client.session(), 0, nullptr, 0);
  take_over(client.peer().fd(), worker.info, services, {}, worker.set);
  client.pump();
  const std::size_t before = client.received_bytes;
  client.get("/a");
  client.pump();
  EXPECT_EQ(body, 5u);
  EXPECT_EQ(sent, client.received_bytes -
                      before);  // HEADERS and DATA with their frame headers; nothing else was due.
  worker.set.close_now();
  worker.loop.run_until_blocked();
}

TEST_F(H2Response, ManyStreamsOfATurnLeaveInOneSend) {
  worker.handle("/a", [](http::Exchange& exchange) { return answer(exchange, "hello"); });
  client.start();
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(client.get("/a"));
  client.pump();
  for (const auto id : ids) EXPECT_EQ(client.replies[id].body, "hello");
  EXPECT_EQ(worker.log.lines.size(), 10u);
}

TEST_F(H2Response, HeadHasLengthAndNoBody) {
  worker.handle("/a", [](http::Exchange& exchange) { return answer(exchange, "hello"); });
  client.start();
  const auto id = client.request("HEAD", "/a", {}, nullptr);
  client.pump();
  EXPECT_EQ(client.replies[id].field("content-length"), "5");
  EXPECT_EQ(client.replies[id].body, "");
  EXPECT_EQ(client.replies[id].data_frames, 0);
  EXPECT_TRUE(client.replies[id].ended);
}

TEST_F(H2Response, ConnectionSpecificFieldsAreStripped) {  // Case 19.
  worker.handle("/a", [](http::Exchange& exchange) {
    auto& fields = exchange.response().fields;
    for (const auto name :
         {"Connection", "Keep-Alive", "Transfer-Encoding", "Proxy-Connection", "Upgrade"}) {
      fields.add(exchange.arena(), name, "x");
    }
    fields.add(exchange.arena(), "Content-Length", "77");
    fields.add(exchange.arena(), "bad name", "x");
    fields.add(exchange.arena(), "X-Bad", "a\r\nb");
    fields.add(exchange.arena(), "Set-Cookie", "a=b");
    return answer(exchange, "hello");
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  const Reply& reply = client.replies[id];
  EXPECT_EQ(reply.body, "hello");
  EXPECT_EQ(reply.field("content-length"), "5");
  EXPECT_EQ(reply.field("set-cookie"), "a=b");
  for (const auto& [name, value] : reply.fields) {
    EXPECT_TRUE(name == "server" || name == "date" || name == "content-type" ||
                name == "content-length" || name == "set-cookie")
        << name;
  }
}

TEST_F(H2Response, LocationBecomesAbsolute) {
  worker.handle("/a", [](http::Exchange& exchange) {
    exchange.response().status = 301;
    exchange.response().location = "/b/";
    exchange.respond(nullptr);
    return http::StepOutcome::answered();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  EXPECT_EQ(client.replies[id].status, 301);
  EXPECT_EQ(client.replies[id].field("location").substr(0, 18), "http://example.org");
}

TEST_F(H2Response, LargeBodyFlowsThroughTheWindow) {
  std::string text(1'000'000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  worker.handle("/a", [&](http::Exchange& exchange) {
    auto* source = exchange.arena().make<ScriptSource>(exchange.transport());
    source->put(text);
    source->finish();
    source->piece_bytes = 5000;
    exchange.response().status = 200;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  client.start();
  const auto a = client.get("/a"), b = client.get("/a");
  client.pump();
  EXPECT_TRUE(client.replies[a].body == text);
  EXPECT_TRUE(client.replies[b].body == text);
  EXPECT_EQ(client.replies[a].field("content-length"), "");
  EXPECT_TRUE(client.replies[a].ended && client.replies[b].ended);
}

TEST_F(H2Response, BlockedSourceIsAskedOnlyWhenItHasSomething) {  // Case 20.
  ScriptSource* source = nullptr;
  worker.handle("/a", [&](http::Exchange& exchange) {
    source = exchange.arena().make<ScriptSource>(exchange.transport());
    exchange.response().status = 200;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  Reply& reply = client.replies[id];
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(source->reads, 1);
  source->put("one");
  client.pump();
  EXPECT_EQ(reply.body, "one");
  EXPECT_FALSE(reply.ended);
  const int reads = source->reads;
  client.pump();
  EXPECT_EQ(source->reads, reads);
  source->put("two");
  source->finish();
  client.pump();
  EXPECT_EQ(reply.body, "onetwo");
  EXPECT_TRUE(reply.ended);
}

TEST_F(H2Response, TrailersFollowTheBody) {
  worker.handle("/a", [](http::Exchange& exchange) {
    auto* source = exchange.arena().make<ScriptSource>(exchange.transport());
    source->trailer_list.add(exchange.arena(), "X-Checksum", "42");
    source->trailer_list.add(exchange.arena(), "Content-Length", "1");
    source->put("body");
    source->finish();
    exchange.response().status = 200;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  const Reply& reply = client.replies[id];
  EXPECT_EQ(reply.body, "body");
  ASSERT_EQ(reply.trailers.size(), 1u);
  EXPECT_EQ(reply.trailers[0].first, "x-checksum");
  EXPECT_TRUE(reply.ended);
  EXPECT_EQ(reply.error_code, 0u);
}

// Case 17.
TEST_F(H2Response, ShortBodyIsReset) {
  worker.handle("/a", [](http::Exchange& exchange) {
    auto* source = exchange.arena().make<ScriptSource>(exchange.transport());
    source->put("1234");
    source->finish();
    exchange.response().status = 200;
    exchange.response().content_length = 10;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  EXPECT_FALSE(client.replies[id].ended);
  EXPECT_TRUE(client.replies[id].closed);
  EXPECT_EQ(client.replies[id].error_code, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
  EXPECT_EQ(worker.log.lines.size(), 1u);
}

TEST_F(H2Response, LongBodyIsCut) {
  bool cancelled = false;
  struct Endless final : http::BodySource {
    bool& cancelled;
    explicit Endless(bool& c) : cancelled(c) {}
    Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                   http::Forms) override {
      out[0] = Segment::from_static(
          std::string_view("abcdefgh").substr(0, std::min<std::size_t>(bytes_max, 8)));
      return http::ReadOutcome{1, http::Next::kMore};
    }
    void cancel() noexcept override { cancelled = true; }
  };
  worker.handle("/a", [&](http::Exchange& exchange) {
    exchange.response().status = 200;
    exchange.response().content_length = 10;
    exchange.respond(exchange.arena().make<Endless>(cancelled));
    return http::StepOutcome::answered();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  EXPECT_EQ(client.replies[id].body, "abcdefghab");
  EXPECT_TRUE(client.replies[id].ended);
  EXPECT_EQ(client.replies[id].error_code, 0u);
  EXPECT_TRUE(cancelled);
}

TEST_F(H2Response, FailingSourceResetsTheStreamOnly) {
  ScriptSource* source = nullptr;
  worker.handle("/a", [&](http::Exchange& exchange) {
    source = exchange.arena().make<ScriptSource>(exchange.transport());
    source->put("some");
    exchange.response().status = 200;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  worker.handle("/b", [](http::Exchange& exchange) { return answer(exchange, "fine"); });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  EXPECT_EQ(client.replies[id].body, "some");
  source->fail();
  client.pump();
  EXPECT_TRUE(client.replies[id].closed);
  EXPECT_EQ(client.replies[id].error_code, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
  const auto other = client.get("/b");
  client.pump();
  EXPECT_EQ(client.replies[other].body, "fine");
}

TEST_F(H2Response, InformationalHeadComesFirst) {
  worker.handle("/a", [](http::Exchange& exchange) {
    http::FieldList fields;
    fields.add(exchange.arena(), "Link", "</s.css>; rel=preload");
    exchange.transport().send_informational(103, fields);
    return answer(exchange, "hello");
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  EXPECT_EQ(client.replies[id].informational, std::vector<int>{103});
  EXPECT_EQ(client.replies[id].status, 200);
}

TEST_F(H2Response, StreamResetByTheClientCancelsTheSource) {
  ScriptSource* source = nullptr;
  bool destroyed = false;
  struct Watch {
    bool* flag = nullptr;
    ~Watch() {
      if (flag != nullptr) *flag = true;
    }
  };
  worker.handle("/a", [&](http::Exchange& exchange) {
    source = exchange.arena().make<ScriptSource>(exchange.transport());
    exchange.arena().make<Watch>()->flag = &destroyed;
    exchange.response().status = 200;
    exchange.respond(source);
    return http::StepOutcome::answered();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  nghttp2_submit_rst_stream(client.session(), 0, id, NGHTTP2_CANCEL);
  client.pump();
  EXPECT_TRUE(destroyed);
  ASSERT_EQ(worker.log.lines.size(), 1u);
  EXPECT_EQ(worker.counters.active[1], 0);
  EXPECT_EQ(worker.counters.active[2], 1);
}

TEST_F(H2Response, ResetByTheHandlerEndsTheStream) {
  http::Exchange* held = nullptr;
  worker.handle("/a", [&](http::Exchange& exchange) {
    held = &exchange;
    return http::StepOutcome::suspend();
  });
  client.start();
  const auto id = client.get("/a");
  client.pump();
  held->reset(Error{Code::kReset, Party::kOrigin, 0, "origin"});
  client.pump();
  EXPECT_TRUE(client.replies[id].closed);
  EXPECT_EQ(client.replies[id].error_code, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
  EXPECT_EQ(worker.log.lines.size(), 1u);
}

}  // namespace
}  // namespace corehttpd::h2::testing
