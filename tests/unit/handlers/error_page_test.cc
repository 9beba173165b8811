#include "corehttpd/handlers/error_page.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/memory_source.h"
#include "support/blocks.h"
#include "support/compile.h"
#include "unit/http/fake_worker.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::Method;
using http::StepOutcome;
using http::testing::FakeRequest;
using http::testing::FakeWorker;

struct LambdaStep final : http::Step {
  std::function<StepOutcome(Exchange&)> function;
  StepOutcome run(Exchange& exchange) const override { return function(exchange); }
};

const conf::Module* const kModules[] = {&test::kBlockModule, &http::core_module(),
                                        &expr::expr_module(), &error_page_module()};

test::Compiled compile(std::string_view directives) {
  test::kept_servers.clear();
  test::kept_locations.clear();
  return test::compile(
      "http { server { " + std::string(directives) + " } }", kModules,
      [](conf::Compiler& compiler) {
        static const std::span<const expr::Variable> tables[] = {expr::core_variables()};
        expr::prepare(compiler, tables);
      });
}

class ErrorPageTest : public ::testing::Test {
 protected:
  void configure(std::string_view directives) {
    compiled_.emplace(compile(directives));
    ASSERT_TRUE(*compiled_) << compiled_->text();
    worker.emplace();
    worker->site.settings = test::kept_servers[0];
    services.emplace(http::Services{worker->services.loop,
                                    worker->turn,
                                    worker->blocks,
                                    worker->clock,
                                    worker->sites,
                                    pages,
                                    worker->log,
                                    worker->counters,
                                    {}});
  }
  void serve(std::string_view uri, std::function<StepOutcome(Exchange&)> function) {
    LambdaStep& step = steps_.emplace_back();
    step.function = std::move(function);
    http::Location& location = locations_.emplace_back();
    location.settings = worker->site.settings;
    location.pipeline.steps = {&slots_.emplace_back(&step), 1};
    worker->sites.add(uri, location);
  }
  void fail_at(std::string_view uri, std::uint16_t status) {
    serve(uri, [status](Exchange&) { return StepOutcome::fail(status); });
  }
  void page_at(std::string_view uri, std::string_view text, std::uint16_t status = 200) {
    serve(uri, [=, this](Exchange& exchange) {
      seen_method = exchange.request().method;
      seen_args = exchange.args();
      exchange.response().status = status;
      exchange.response().content_length = text.size();
      exchange.respond(http::make_text_source(exchange.arena(), text));
      return StepOutcome::answered();
    });
  }
  // Owned by the test: what was sent is looked at after it.
  FakeRequest& ask(std::string_view target, Method method = Method::kGet) {
    request = std::make_unique<FakeRequest>(*services, worker->connection, target, method);
    request->exchange.start();
    request->transport.drain();
    return *request;
  }

  ErrorPages pages;
  std::optional<test::Compiled> compiled_;
  std::optional<FakeWorker> worker;
  std::optional<http::Services> services;
  std::deque<LambdaStep> steps_;
  std::deque<const http::Step*> slots_;
  std::deque<http::Location> locations_;
  std::unique_ptr<FakeRequest> request;
  Method seen_method = Method::kUnknown;
  std::string seen_args;
};

TEST_F(ErrorPageTest, BuiltInPageHasNginxsShape) {
  configure("server_tokens off;");
  const auto& sent = ask("/missing").transport;
  EXPECT_EQ(sent.head.status, 404);
  EXPECT_EQ(sent.head.content_type, "text/html");
  EXPECT_EQ(sent.head.content_length, sent.body.size());
  EXPECT_EQ(sent.body,
            "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not "
            "Found</h1></center>\r\n"
            "<hr><center>corehttpd</center>\r\n</body>\r\n</html>\r\n");
  EXPECT_FALSE(sent.head.close_connection);
}

TEST_F(ErrorPageTest, TokensShowTheVersion) {
  configure("");
  EXPECT_NE(ask("/missing").transport.body.find("<hr><center>corehttpd/" CORE_VERSION "</center>"),
            std::string::npos);
}

TEST_F(ErrorPageTest, WordingOfSpecialStatuses) {
  configure("");
  fail_at("/497", 497);
  fail_at("/302", 302);
  fail_at("/599", 599);
  EXPECT_EQ(ask("/497").transport.head.status, 400);
  EXPECT_NE(request->transport.body.find(
                "<title>400 The plain HTTP request was sent to HTTPS port</title>"),
            std::string::npos);
  EXPECT_NE(request->transport.body.find("<h1>400 Bad Request</h1></center>\r\n<center>The plain "
                                         "HTTP request was sent to HTTPS port</center>"),
            std::string::npos);
  EXPECT_TRUE(request->transport.head.close_connection);
  EXPECT_NE(ask("/302").transport.body.find("<h1>302 Found</h1>"), std::string::npos);
  EXPECT_EQ(ask("/599").transport.body, "");  // As nginx: a number without a name has no page.
}

TEST_F(ErrorPageTest, PageOfTheSiteKeepsTheStatus) {
  configure("error_page 404 403 /errors/e.html?why=$status;");
  page_at("/errors/e.html", "sorry");
  const auto& sent = ask("/missing", Method::kPost).transport;
  EXPECT_EQ(sent.head.status, 404);
  EXPECT_EQ(sent.body, "sorry");
  EXPECT_EQ(seen_method, Method::kGet);
  fail_at("/forbidden", 403);
  EXPECT_EQ(ask("/forbidden").transport.head.status, 403);
}

TEST_F(ErrorPageTest, ArgumentsAndVariables) {
  configure("error_page 404 /e?u=$uri&x;");
  page_at("/e", "sorry");
  ask("/missing");
  EXPECT_EQ(seen_args, "u=/missing&x");
}

TEST_F(ErrorPageTest, HeadStaysHead) {
  configure("error_page 404 /e;");
  page_at("/e", "sorry");
  const auto& sent = ask("/missing", Method::kHead).transport;
  EXPECT_EQ(seen_method, Method::kHead);
  EXPECT_EQ(sent.head.status, 404);
  EXPECT_EQ(sent.head.content_length, 5u);
  EXPECT_EQ(sent.body, "");
}

TEST_F(ErrorPageTest, ResponseCodeIsReplaced) {
  configure("error_page 404 =200 /e; error_page 403 = /e2; error_page 502 =503 /e;");
  page_at("/e", "sorry");
  page_at("/e2", "other", 201);
  fail_at("/forbidden", 403);
  fail_at("/down", 502);
  EXPECT_EQ(ask("/missing").transport.head.status, 200);
  EXPECT_EQ(ask("/forbidden").transport.head.status, 201);
  EXPECT_EQ(ask("/down").transport.head.status, 503);
}

TEST_F(ErrorPageTest, NamedLocationKeepsTheMethodAndUri) {
  configure("error_page 404 = @app;");
  page_at("@app", "made");
  const auto& sent = ask("/missing", Method::kPost).transport;
  EXPECT_EQ(sent.body, "made");
  EXPECT_EQ(sent.head.status, 200);
  EXPECT_EQ(seen_method, Method::kPost);
  EXPECT_EQ(request->exchange.uri(), "/missing");
}

TEST_F(ErrorPageTest, UrlsRedirectTheClient) {
  configure(
      "error_page 404 http://example.net/e; error_page 403 =301 https://example.net$uri; "
      "error_page 500 =200 http://example.net/;");
  fail_at("/forbid%0d%0aden", 403);
  fail_at("/for\r\nbidden", 403);
  fail_at("/broken", 500);
  EXPECT_EQ(ask("/missing").transport.head.status, 302);
  EXPECT_EQ(request->transport.head.location, "http://example.net/e");
  EXPECT_NE(request->transport.body.find("302 Found"), std::string::npos);
  EXPECT_EQ(ask("/for%0d%0abidden").transport.head.status, 301);
  EXPECT_EQ(request->transport.head.location, "https://example.net/for%0D%0Abidden");
  EXPECT_EQ(ask("/broken").transport.head.status, 302);
  EXPECT_TRUE(request->transport.head.close_connection);
}

TEST_F(ErrorPageTest, ErrorsOfErrorPagesAreBuiltIn) {
  configure("error_page 404 /gone; error_page 403 /other;");
  fail_at("/gone", 403);
  page_at("/other", "never");
  const auto& sent = ask("/missing").transport;
  EXPECT_EQ(sent.head.status, 403);
  EXPECT_NE(sent.body.find("403 Forbidden"), std::string::npos);
}

TEST_F(ErrorPageTest, RecursiveErrorPages) {
  configure("recursive_error_pages on; error_page 404 /gone; error_page 403 /other;");
  fail_at("/gone", 403);
  page_at("/other", "found");
  const auto& sent = ask("/missing").transport;
  EXPECT_EQ(sent.head.status, 403);
  EXPECT_EQ(sent.body, "found");
}

TEST_F(ErrorPageTest, EndlessRecursionEnds) {
  configure("recursive_error_pages on; error_page 404 /missing;");
  const auto& sent = ask("/missing").transport;
  EXPECT_EQ(sent.head.status, 404);
  EXPECT_NE(sent.body.find("404 Not Found"), std::string::npos);
}

TEST_F(ErrorPageTest, InheritsAsAListAndOverridesAsOne) {
  configure(
      "error_page 404 /a; error_page 403 /b; location /x { error_page 500 /c; } location /y { }");
  EXPECT_EQ(test::kept_locations[0].get<ErrorPageSettings>().pages.size(), 1u);
  EXPECT_EQ(test::kept_locations[1].get<ErrorPageSettings>().pages.size(), 2u);
}

TEST_F(ErrorPageTest, KeepsFieldsOfTheErrorAndForgetsTheRest) {
  configure("");
  serve("/x", [](Exchange& exchange) {
    http::ResponseHead& response = exchange.response();
    response.fields.add(exchange.arena(), "Allow", "GET");
    response.etag = "\"x\"";
    response.last_modified = 5;
    response.content_length = 99;
    response.accept_ranges = true;
    return StepOutcome::fail(405);
  });
  const auto& head = ask("/x", Method::kPut).transport.head;
  EXPECT_EQ(head.status, 405);
  EXPECT_EQ(head.fields.find("Allow")->value, "GET");
  EXPECT_EQ(head.etag, "");
  EXPECT_EQ(head.last_modified, -1);
  EXPECT_FALSE(head.accept_ranges);
  EXPECT_EQ(head.content_length, request->transport.body.size());
}

TEST_F(ErrorPageTest, NoAnswerFor444) {
  configure("error_page 404 /e;");
  fail_at("/drop", 444);
  const auto& sent = ask("/drop").transport;
  EXPECT_FALSE(sent.head_sent);
  EXPECT_TRUE(sent.was_reset);
  request->exchange.on_transport_lost(sent.reset_error);
  EXPECT_EQ(worker->log.lines.at(0), "/drop 444");
}

TEST_F(ErrorPageTest, NoBodyFor304And204) {
  configure("");
  fail_at("/a", 304);
  fail_at("/b", 204);
  EXPECT_EQ(ask("/a").transport.head.status, 304);
  EXPECT_FALSE(request->transport.head.content_length);
  EXPECT_EQ(request->transport.body, "");
  EXPECT_EQ(ask("/b").transport.head.status, 204);
  EXPECT_EQ(request->transport.body, "");
}

TEST_F(ErrorPageTest, ConnectionIsClosedWhereItIsInDoubt) {
  configure("");
  fail_at("/400", 400);
  fail_at("/413", 413);
  fail_at("/500", 500);
  fail_at("/503", 503);
  for (std::string_view uri : {"/400", "/413", "/500"})
    EXPECT_TRUE(ask(uri).transport.head.close_connection) << uri;
  EXPECT_FALSE(ask("/503").transport.head.close_connection);
}

TEST_F(ErrorPageTest, AnErrorPageFor413WithItsOwnStatus) {
  configure("client_max_body_size 1; error_page 413 = /e;");
  page_at("/e", "too much");
  page_at("/upload", "never");
  request = std::make_unique<FakeRequest>(*services, worker->connection, "/upload", Method::kPost);
  request->exchange.request().content_length = 5;
  request->exchange.request().body_expected = true;
  request->exchange.start();
  request->transport.drain();
  EXPECT_EQ(request->transport.body, "too much");
  EXPECT_EQ(request->transport.head.status, 200);
  EXPECT_TRUE(request->transport.head.close_connection);
}

TEST(ErrorPageDirective, RefusesNonsense) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"error_page 404;", "invalid number of arguments"},
      {"error_page 200 /x;", "must be between 300 and 599"},
      {"error_page 600 /x;", "must be between"},
      {"error_page 499 /x;", "is not allowed"},
      {"error_page abc /x;", "invalid value \"abc\""},
      {"error_page 404 =x /x;", "invalid value \"=x\""},
      {"error_page =200 /x;", "no code"},
      {"error_page 404 /$nope;", "unknown \"nope\" variable"},
  };
  for (const Case& c : cases) {
    const test::Compiled compiled = compile(c.text);
    EXPECT_FALSE(compiled) << c.text;
    EXPECT_TRUE(compiled.error(c.message)) << c.text << "\n" << compiled.text();
  }
}

}  // namespace
}  // namespace corehttpd::handlers
