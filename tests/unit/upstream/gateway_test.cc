#include <gtest/gtest.h>

#include "corehttpd/upstream/attempts.h"
#include "unit/upstream/gateway_harness.h"

namespace corehttpd::upstream {
namespace {

constexpr std::string_view kHead = "Content-Type: text/html\r\n\r\n";

std::string page(std::string_view body) { return out(std::string(kHead) + std::string(body)); }

TEST_F(Gateway, AShortPageIsOnePieceWithALength) {
  start();
  ASSERT_NE(origin(), nullptr);
  const Received request(current->arrived());
  EXPECT_NE(request.params.find("/x.php"), std::string::npos);
  EXPECT_TRUE(request.params_ended);
  EXPECT_TRUE(request.body_ended);
  answer(page("hello") + end());
  EXPECT_EQ(transport->status, 200);
  EXPECT_EQ(transport->content_type, "text/html");
  EXPECT_EQ(transport->body, "hello");
  EXPECT_TRUE(transport->ended);
  EXPECT_TRUE(current->ended());
  const Attempts* attempts = exchange->find_state<Attempts>();
  ASSERT_EQ(attempts->list.size(), 1u);
  EXPECT_EQ(attempts->list[0]->status, 200);
  EXPECT_EQ(attempts->list[0]->address, "unix:/run/a.sock");
  EXPECT_EQ(attempts->list[0]->response_length, 5u);
  EXPECT_GE(attempts->list[0]->response_ms, 0);
}

// Case 20: what the origin flushes goes out at once.
TEST_F(Gateway, PiecesArePassedOnAsTheyCome) {
  start();
  answer(page("one "), false);
  EXPECT_EQ(transport->body, "one ");
  EXPECT_FALSE(transport->ended);
  answer(out("two"), false);
  EXPECT_EQ(transport->body, "one two");
  answer(end());
  EXPECT_TRUE(transport->ended);
  EXPECT_FALSE(transport->content_length.has_value());
}

TEST_F(Gateway, ConnectRefusedIs502InNginxsWords) {
  connect_results = {-ECONNREFUSED};
  start();
  EXPECT_EQ(transport->status, 502);
  logged(
      "connect() to unix:/run/a.sock failed (111: Connection refused) while connecting to "
      "upstream (nobody listens there), client: 192.0.2.7, server: , request: \"GET /x.php "
      "HTTP/1.1\", upstream: "
      "\"fastcgi://unix:/run/a.sock:\", host: \"example.org\"");
}

TEST_F(Gateway, AFullBacklogIsWaitedFor) {
  connect_results = {-EAGAIN, -EAGAIN, -EAGAIN};
  start();
  while (!connect_results.empty()) loop.run_once();
  settle();
  EXPECT_TRUE(loop.run_until_blocked());
  for (int i = 0; i < 1000 && origin() == nullptr; ++i) loop.run_once();
  answer(page("ok") + end());
  EXPECT_EQ(transport->status, 200);
  EXPECT_EQ(transport->body, "ok");
}

TEST_F(Gateway, AFullBacklogIsNotWaitedForForever) {
  settings.connect_timeout = 300;
  connect_results.assign(1000, -EAGAIN);
  start();
  EXPECT_TRUE(loop.run_until_quiet());
  EXPECT_EQ(transport->status, 502);
  logged("failed (11: Resource temporarily unavailable) while connecting to upstream");
}

TEST_F(Gateway, PrematureCloseIs502) {
  start();
  answer("");
  EXPECT_EQ(transport->status, 502);
  logged("upstream prematurely closed connection while reading response header from upstream");
}

TEST_F(Gateway, SilenceIs504) {
  settings.read_timeout = 5000;
  start();
  origin();
  const Milliseconds before = loop.clock().now_ms();
  EXPECT_TRUE(loop.run_until_quiet());
  EXPECT_GE(loop.clock().now_ms() - before, 4000);
  EXPECT_EQ(transport->status, 504);
  logged(
      "upstream timed out (110: Connection timed out) while reading response header from "
      "upstream");
  EXPECT_TRUE(current->ended());
}

TEST_F(Gateway, SilenceInTheBodyEndsItUncleanly) {
  start();
  answer(page("begin"), false);
  EXPECT_TRUE(loop.run_until_quiet());
  transport->pull();
  EXPECT_TRUE(transport->source_failed);
  logged("upstream timed out (110: Connection timed out) while reading upstream");
}

TEST_F(Gateway, ABadHeadSaysWhatWasWrong) {
  start();
  answer(out("Fatal error in x.php\r\n\r\n") + end());
  EXPECT_EQ(transport->status, 502);
  logged(
      "upstream sent invalid header: \"Fatal error in x.php\" (no colon) while reading response "
      "header from upstream");
}

TEST_F(Gateway, ATooBigHeadIs502) {
  settings.buffer_size = 1024;
  start();
  answer(out("A: " + std::string(2000, 'x')) + end());
  EXPECT_EQ(transport->status, 502);
  logged("upstream sent too big header while reading response header from upstream");
}

TEST_F(Gateway, ARecordThatIsNoneIs502) {
  start();
  answer("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(transport->status, 502);
  logged("upstream sent unsupported FastCGI protocol version: 72 while");
}

TEST_F(Gateway, AnEndWithoutAHeadIs502) {
  start();
  answer(end());
  EXPECT_EQ(transport->status, 502);
  logged("upstream prematurely closed FastCGI request");
  finish();
  start();
  answer(record(6, ""), false);
  EXPECT_EQ(transport->status, 502);
  logged("upstream prematurely closed FastCGI stdout");
}

// Case 12: bytes after the end are nobody's; the connection is closed.
TEST_F(Gateway, BytesAfterTheEndAreDropped) {
  start();
  answer(page("mine") + end() + err("late") + page("of another") + end(), false);
  EXPECT_EQ(transport->body, "mine");
  EXPECT_TRUE(transport->ended);
  EXPECT_FALSE(transport->source_failed);
  EXPECT_TRUE(current->ended());
}

// Case 16.
TEST_F(Gateway, ManyCookiesAndNoticesOnStderr) {
  start();
  std::string head;
  for (int i = 0; i < 40; ++i) {
    head += "Set-Cookie: c" + std::to_string(i) + "=" + std::string(500, 'v') + "\r\n";
  }
  answer(err("PHP message: " + std::string(8000, 'n') + "!\n") + out(head + "\r\nok") + end());
  EXPECT_EQ(transport->status, 200);
  EXPECT_EQ(std::ranges::count(transport->fields, "Set-Cookie",
                               &std::pair<std::string, std::string>::first),
            40);
  logged("FastCGI sent in stderr: \"PHP message: nnn");
  logged("nnn!\" while reading response header from upstream, client: 192.0.2.7");
}

// Case 17.
TEST_F(Gateway, ABodyShorterThanItsLengthFails) {
  start();
  answer(out("Content-Length: 10\r\n\r\n12345") + end());
  EXPECT_EQ(transport->content_length, 10u);
  EXPECT_EQ(transport->body, "12345");
  EXPECT_TRUE(transport->source_failed);
  EXPECT_FALSE(transport->ended);
}

TEST_F(Gateway, ABodyLongerThanItsLengthIsCut) {
  start();
  answer(out("Content-Length: 5\r\n\r\n1234567890") + end());
  EXPECT_EQ(transport->body, "12345");
  EXPECT_TRUE(transport->ended);
  logged("upstream sent more data than specified in \"Content-Length\" header");
}

TEST_F(Gateway, AConnectionLostInTheBodyFailsIt) {
  start();
  answer(page("some"), false);
  current->reset();
  settle();
  transport->pull();
  EXPECT_TRUE(transport->source_failed);
}

// Case 19.
TEST_F(Gateway, FieldsOfTheConnectionAreStripped) {
  start();
  answer(out("Connection: keep-alive, X-Secret\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: "
             "chunked\r\nUpgrade: h2c\r\nX-Secret: 1\r\nX-Accel-Expires: 5\r\nX-Kept: yes\r\n"
             "Location: /there\r\n\r\n") +
         end());
  EXPECT_EQ(transport->status, 302);
  ASSERT_EQ(transport->fields.size(), 2u);
  EXPECT_EQ(transport->field("X-Kept"), "yes");
  EXPECT_EQ(transport->field("Location"), "/there");
}

TEST_F(Gateway, HideAndPassHeader) {
  const std::string_view hidden[] = {"x-powered-by"};
  const std::string_view passed[] = {"X-Accel-Expires"};
  settings.hide_headers = hidden;
  settings.pass_headers = passed;
  start();
  answer(out("X-Powered-By: PHP\r\nX-Accel-Expires: 5\r\nX-Accel-Charset: utf-8\r\n\r\n") + end());
  ASSERT_EQ(transport->fields.size(), 1u);
  EXPECT_EQ(transport->field("X-Accel-Expires"), "5");
}

TEST_F(Gateway, ValidatorsHavePlacesOfTheirOwn) {
  start();
  answer(out("ETag: \"abc\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n") + end());
  EXPECT_EQ(transport->etag, "\"abc\"");
  EXPECT_EQ(transport->last_modified, 784111777);
}

TEST_F(Gateway, AccelRedirectGoesElsewhere) {
  start();
  answer(out("X-Accel-Redirect: /inter%6eal\r\nSet-Cookie: a=b\r\nX-Other: 1\r\n\r\nnot this"),
         false);
  EXPECT_EQ(transport->status, 200);
  EXPECT_EQ(transport->body, "");
  EXPECT_EQ(transport->field("Set-Cookie"), "a=b");
  EXPECT_EQ(transport->field("X-Other"), "");
  EXPECT_TRUE(current->ended());
}

TEST_F(Gateway, AnUnsafeAccelRedirectIs404) {
  start();
  answer(out("X-Accel-Redirect: /../../etc/passwd\r\n\r\n"), false);
  EXPECT_EQ(transport->status, 404);
  logged("unsafe URI \"/../../etc/passwd\" was detected");
}

TEST_F(Gateway, EarlyHintsArePassedOn) {
  start();
  answer(out("Status: 103\r\nLink: </a.css>\r\n\r\n"), false);
  EXPECT_EQ(transport->informational, std::vector<std::uint16_t>{103});
  EXPECT_EQ(transport->heads, 0);
  answer(page("x") + end());
  EXPECT_EQ(transport->status, 200);
}

TEST_F(Gateway, HeadHasNoBodyAndTheScriptIsHeardOut) {
  start("HEAD");
  answer(out("Content-Length: 12345\r\n\r\n"), false);
  EXPECT_EQ(transport->content_length, 12345u);
  EXPECT_FALSE(transport->has_source);
  EXPECT_FALSE(current->ended());
  answer(end(), false);
  EXPECT_TRUE(current->ended());
}

TEST_F(Gateway, CaughtStderrMakesAResponseInvalid) {
  caught = {"Fatal error"};
  start();
  answer(err("PHP Fatal error: x") + page("half a page") + end());
  EXPECT_EQ(transport->status, 502);
}

// --- Other servers.

TEST_F(Gateway, TheNextServerIsAskedWhenOneRefuses) {
  add_peer("/run/b.sock");
  connect_results = {-ECONNREFUSED};
  start("POST", "/x.php", 0);
  answer(page("b") + end());
  EXPECT_EQ(transport->status, 200);
  const Attempts* attempts = exchange->find_state<Attempts>();
  ASSERT_EQ(attempts->list.size(), 2u);
  EXPECT_EQ(attempts->list[0]->status, 502);
  EXPECT_EQ(attempts->list[1]->status, 200);
  EXPECT_NE(attempts->list[0]->address, attempts->list[1]->address);
}

TEST_F(Gateway, AnIdempotentRequestIsSentToEachServer) {
  add_peer("/run/b.sock");
  add_peer("/run/c.sock");
  start();
  answer("");
  EXPECT_EQ(transport->heads, 0);
  io::SimPeer* first = current;
  ASSERT_NE(origin(), first);
  EXPECT_TRUE(Received(current->arrived()).body_ended);
  answer("");
  answer("");  // There is no fourth one.
  EXPECT_EQ(transport->status, 502);
  EXPECT_EQ(exchange->find_state<Attempts>()->list.size(), 3u);
}

TEST_F(Gateway, AnotherRequestIsNotSentAgain) {
  add_peer("/run/b.sock");
  start("POST", "/x.php", 0);
  answer("");
  EXPECT_EQ(transport->status, 502);
  EXPECT_EQ(exchange->find_state<Attempts>()->list.size(), 1u);
}

TEST_F(Gateway, TriesAreLimited) {
  for (const char* path : {"/b", "/c", "/d"}) add_peer(path);
  settings.next_upstream_tries = 2;
  connect_results = {-ECONNREFUSED, -ECONNREFUSED, -ECONNREFUSED, -ECONNREFUSED};
  start();
  EXPECT_EQ(transport->status, 502);
  EXPECT_EQ(connect_results.size(), 2u);
}

TEST_F(Gateway, AStatusMayAskForTheNextServer) {
  add_peer("/run/b.sock");
  settings.next_upstream |= kNext503;
  start();
  answer(out("Status: 503\r\n\r\n") + end());
  EXPECT_EQ(transport->heads, 0);
  answer(out("Status: 503\r\n\r\nlast") + end());
  EXPECT_EQ(transport->status, 503);
  EXPECT_EQ(transport->body, "last");
}

TEST_F(Gateway, NoServerLeftIs502) {
  peers[0].down = true;
  start();
  EXPECT_EQ(transport->status, 502);
  logged("no live upstreams while connecting to upstream");
}

// --- Clients that go away.

TEST_F(Gateway, WithTheClientGoesTheConnection) {
  start();
  ASSERT_NE(origin(), nullptr);
  lose_client();
  EXPECT_TRUE(current->ended());
  logged(
      "client prematurely closed connection, so upstream connection is closed too while "
      "reading response header from upstream");
}

TEST_F(Gateway, TheScriptRunsOnIfToldSo) {
  settings.ignore_client_abort = true;
  start();
  ASSERT_NE(origin(), nullptr);
  lose_client();
  exchange.reset();
  settle();
  EXPECT_FALSE(current->ended());
  current->push(page(std::string(50'000, 'x')));
  settle();
  EXPECT_FALSE(current->ended());
  current->push(err("done") + end());
  settle();
  EXPECT_TRUE(current->ended());
  logged("FastCGI sent in stderr: \"done\" after the client had gone");
}

TEST_F(Gateway, ARequestWhoseClientIsGoneIsStillSentWhole) {
  settings.ignore_client_abort = true;
  const std::string body(300'000, 'b');
  start("POST", "/x.php", static_cast<std::int64_t>(body.size()));
  exchange->body().on_data(std::as_bytes(std::span(body)), true);
  settle();
  ASSERT_NE(origin(), nullptr);
  lose_client();  // The window of 64k is full by now.
  exchange.reset();
  std::string arrived;
  for (int i = 0; i < 1000; ++i) {
    arrived += current->take();
    settle();
  }
  const Received request(arrived);
  EXPECT_TRUE(request.body == body);
  EXPECT_TRUE(request.body_ended);
  current->push(end());
  settle();
  EXPECT_TRUE(current->ended());
}

TEST_F(Gateway, AnExchangeThatVanishesTakesTheConnectionAlong) {
  start();
  ASSERT_NE(origin(), nullptr);
  exchange.reset();
  settle();
  EXPECT_TRUE(current->ended());
}

// --- Back-pressure.

TEST_F(Gateway, AFullSpoolStopsTheOriginAndAReaderStartsItAgain) {
  settings.buffers_number = 4;
  settings.buffers_size = 4096;
  settings.max_temp_file_size = 0;
  const std::string body(500'000, 'x');
  start();
  ASSERT_NE(origin(), nullptr);
  current->push(page(""));
  for (std::size_t at = 0; at < body.size(); at += 50'000)
    current->push(out(body.substr(at, 50'000)));
  current->push(end());
  settle();
  EXPECT_EQ(transport->status, 200);
  EXPECT_GT(current->pushed_and_not_received(), 300'000u);
  // However long the client takes, it is not the origin that is late.
  EXPECT_TRUE(loop.run_until_quiet());
  EXPECT_GT(current->pushed_and_not_received(), 300'000u);
  for (int i = 0; i < 10'000 && !transport->ended; ++i) {
    transport->pull();
    settle();
  }
  EXPECT_TRUE(transport->ended);
  EXPECT_EQ(transport->body.size(), body.size());
}

TEST_F(Gateway, ASlowClientDoesNotHoldTheOrigin) {
  settings.buffers_number = 2;
  settings.buffers_size = 4096;
  std::string body;
  while (body.size() < 900'000) body += std::to_string(body.size()) + ",";
  start();
  ASSERT_NE(origin(), nullptr);
  current->push(page(""));
  for (std::size_t at = 0; at < body.size(); at += 50'000)
    current->push(out(body.substr(at, 50'000)));
  current->push(end());
  settle();
  EXPECT_EQ(current->pushed_and_not_received(), 0u);
  EXPECT_TRUE(current->ended());
  logged("an upstream response is buffered to a temporary file");
  for (int i = 0; i < 10'000 && !transport->ended; ++i) {
    transport->pull(1000);
    settle();
  }
  EXPECT_TRUE(transport->ended);
  EXPECT_TRUE(transport->body == body);
}

TEST_F(Gateway, WithoutBufferingLittleIsHeld) {
  settings.buffering = false;
  start();
  ASSERT_NE(origin(), nullptr);
  current->push(page(""));
  for (int i = 0; i < 10; ++i) current->push(out(std::string(50'000, 'x')));
  settle();
  EXPECT_GT(current->pushed_and_not_received(), 400'000u);
}

// --- Request bodies.

// Case 14: the body is complete, and its length known, before an origin is asked.
TEST_F(Gateway, ABodyOfUnknownLengthIsCollectedFirst) {
  start("POST", "/x.php", 10);
  exchange->request().content_length.reset();  // As of a chunked body.
  EXPECT_EQ(origin(), nullptr);
  exchange->body().on_data(std::as_bytes(std::span("12345", 5)), false);
  settle();
  EXPECT_EQ(origin(), nullptr);
  exchange->body().on_data(std::as_bytes(std::span("67", 2)), true);
  settle();
  ASSERT_NE(origin(), nullptr);
  const Received request(current->arrived());
  EXPECT_EQ(request.body, "1234567");
  EXPECT_NE(request.params.find("CONTENT_LENGTH7"), std::string::npos);
  EXPECT_EQ(exchange->request().content_length, 7u);
}

TEST_F(Gateway, ABodyInAFileIsSentFromThere) {
  const std::string body(200'000, 'f');  // Above client_body_buffer_size.
  start("POST", "/x.php", static_cast<std::int64_t>(body.size()));
  exchange->body().on_data(std::as_bytes(std::span(body)), true);
  settle();
  ASSERT_NE(origin(), nullptr);
  std::string arrived;
  for (int i = 0; i < 1000; ++i) {
    arrived += current->take();
    settle();
  }
  EXPECT_TRUE(Received(arrived).body == body);
  answer(page("ok") + end());
  EXPECT_EQ(transport->body, "ok");
}

TEST_F(Gateway, AnUploadMayBeStreamed) {
  settings.request_buffering = false;
  start("POST", "/x.php", 8);
  ASSERT_NE(origin(), nullptr);
  EXPECT_GT(transport->granted, 0u);
  exchange->body().on_data(std::as_bytes(std::span("1234", 4)), false);
  settle();
  EXPECT_EQ(Received(current->arrived()).body, "1234");
  EXPECT_FALSE(Received(current->arrived()).body_ended);
  exchange->body().on_data(std::as_bytes(std::span("5678", 4)), true);
  settle();
  EXPECT_EQ(Received(current->arrived()).body, "12345678");
  EXPECT_TRUE(Received(current->arrived()).body_ended);
  answer(page("ok") + end());
  EXPECT_EQ(transport->body, "ok");
}

// Case 18: the answer counts, not that the origin didn't take the body.
TEST_F(Gateway, AnEarlyAnswerToABigUploadReachesTheClient) {
  const std::string body(300'000, 'b');
  start("POST", "/x.php", static_cast<std::int64_t>(body.size()));
  exchange->body().on_data(std::as_bytes(std::span(body)), true);
  settle();
  answer(out("Status: 413 Too much\r\n\r\nno") + end());
  EXPECT_EQ(transport->status, 413);
  EXPECT_EQ(transport->body, "no");
  EXPECT_TRUE(transport->ended);
  EXPECT_TRUE(current->ended());
}

TEST_F(Gateway, AnEarlyAnswerToAStreamedUploadEndsIt) {
  settings.request_buffering = false;
  start("POST", "/x.php", 1'000'000);
  ASSERT_NE(origin(), nullptr);
  exchange->body().on_data(std::as_bytes(std::span("1234", 4)), false);
  settle();
  answer(out("Status: 403\r\n\r\nno") + end());
  EXPECT_EQ(transport->status, 403);
  EXPECT_EQ(transport->body, "no");
  EXPECT_EQ(exchange->body().state(), http::RequestBody::State::kDiscarded);
}

TEST_F(Gateway, AnUploadThatBreaksOffIsTheClientsFault) {
  settings.request_buffering = false;
  start("POST", "/x.php", 100);
  ASSERT_NE(origin(), nullptr);
  exchange->body().on_error({Code::kMalformed, Party::kClient, 400, "test"});
  settle();
  EXPECT_EQ(transport->status, 400);
  EXPECT_TRUE(current->ended());
}

TEST_F(Gateway, ATooLargeBodyFailsBeforeAnyServerIsAsked) {
  start("POST", "/x.php", 10);
  exchange->body().on_error({Code::kTooLarge, Party::kClient, 413, "test"});
  settle();
  EXPECT_EQ(transport->status, 413);
  EXPECT_EQ(origin(), nullptr);
}

}  // namespace
}  // namespace corehttpd::upstream
