#include "corehttpd/access/auth_request.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <optional>

#include "corehttpd/access/access.h"
#include "corehttpd/access/auth_basic.h"
#include "corehttpd/http/core_settings.h"
#include "support/blocks.h"
#include "support/compile.h"
#include "unit/http/fake_worker.h"

namespace corehttpd::access {
namespace {

using http::Exchange;
using http::StepOutcome;
using http::testing::FakeRequest;
using http::testing::FakeWorker;

struct LambdaStep final : http::Step {
  std::function<StepOutcome(Exchange&)> function;
  StepOutcome run(Exchange& exchange) const override { return function(exchange); }
};

struct ProbeSettings {
  expr::Program text;
};
constexpr conf::Directive kProbe[] = {{.name = "probe",
                                       .contexts = conf::kHttpServerLocation,
                                       .set = expr::set_program<&ProbeSettings::text>,
                                       .doc = "Test."}};
constexpr conf::Module kProbeModule = conf::module<ProbeSettings>("probe", kProbe);

const conf::Module* const kModules[] = {
    &test::kBlockModule,  &http::core_module(),   &expr::expr_module(), &access_module(),
    &auth_basic_module(), &auth_request_module(), &kProbeModule};

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

class AuthRequestTest : public ::testing::Test {
 protected:
  // "/page" is guarded by directives, and /auth answers with auth.
  void configure(std::string_view directives, std::function<StepOutcome(Exchange&)> auth) {
    compiled_.emplace(
        compile("location /page { " + std::string(directives) + " } location /auth { }"));
    ASSERT_TRUE(*compiled_) << compiled_->text();
    worker.site.settings = test::kept_servers[0];
    page_.function = [this](Exchange& exchange) {
      probe = exchange.settings<ProbeSettings>().text.evaluate(exchange);
      exchange.response().status = 200;
      exchange.respond(nullptr);
      return StepOutcome::answered();
    };
    auth_.function = std::move(auth);
    page_location_.settings = test::kept_locations[0];
    page_steps_[0] = make_access_step(page_location_.settings, arena_);
    page_steps_[1] = &page_;
    page_location_.pipeline.steps = page_steps_[0] == nullptr
                                        ? std::span<const http::Step* const>(page_steps_).subspan(1)
                                        : std::span<const http::Step* const>(page_steps_);
    auth_location_.settings = test::kept_locations[1];
    auth_location_.pipeline.steps = {&auth_step_, 1};
    worker.sites.add("/page", page_location_);
    worker.sites.add("/auth", auth_location_);
  }
  void configure(std::string_view directives, std::uint16_t status) {
    configure(directives, [status](Exchange& exchange) {
      exchange.response().status = status;
      exchange.response().fields.add(exchange.arena(), "WWW-Authenticate", "Basic realm=\"a\"");
      exchange.response().fields.add(exchange.arena(), "www-authenticate", "Bearer");
      exchange.response().fields.add(exchange.arena(), "X-User", "eva");
      exchange.respond(nullptr);
      return StepOutcome::answered();
    });
  }
  std::uint16_t ask() {
    request.emplace(worker, "/page?a=b");
    request->exchange.start();
    EXPECT_FALSE(request->transport.head_sent);
    worker.run_turn();
    return request->transport.head_sent ? request->transport.head.status : 0;
  }

  Arena arena_;
  std::optional<test::Compiled> compiled_;
  FakeWorker worker;
  LambdaStep page_, auth_;
  const http::Step* page_steps_[2] = {};
  const http::Step* auth_step_ = &auth_;
  http::Location page_location_, auth_location_;
  std::optional<FakeRequest> request;
  std::string probe;
};

TEST_F(AuthRequestTest, SuccessLetsTheRequestOn) {
  for (std::uint16_t status : {200, 204, 299}) {
    configure("auth_request /auth;", status);
    EXPECT_EQ(ask(), 200);
    EXPECT_EQ(request->transport.head.fields.size(), 0u);
  }
}

TEST_F(AuthRequestTest, UnauthorizedCarriesTheChallenges) {
  configure("auth_request /auth;", 401);
  EXPECT_EQ(ask(), 401);
  ASSERT_EQ(request->transport.head.fields.size(), 2u);
  EXPECT_EQ(request->transport.head.fields.begin()[0].name, "WWW-Authenticate");
  EXPECT_EQ(request->transport.head.fields.begin()[0].value, "Basic realm=\"a\"");
  EXPECT_EQ(request->transport.head.fields.begin()[1].value, "Bearer");
}

TEST_F(AuthRequestTest, Forbidden) {
  configure("auth_request /auth;", 403);
  EXPECT_EQ(ask(), 403);
  EXPECT_EQ(request->transport.head.fields.size(), 0u);
}

TEST_F(AuthRequestTest, AnythingElseIsOurFault) {
  for (std::uint16_t status : {302, 304, 404, 500, 502, 100}) {
    configure("auth_request /auth;", status);
    EXPECT_EQ(ask(), 500) << status;
  }
}

TEST_F(AuthRequestTest, AResetIsOurFault) {
  configure("auth_request /auth;", [](Exchange& exchange) {
    exchange.reset(Error{Code::kCancelled, Party::kSelf, 444, "closed"});
    return StepOutcome::answered();
  });
  EXPECT_EQ(ask(), 500);
}

TEST_F(AuthRequestTest, OffMakesNoStep) {
  configure("auth_request off;", 403);
  EXPECT_EQ(page_location_.pipeline.steps.size(), 1u);
}

TEST_F(AuthRequestTest, IsNotAskedForSubrequests) {
  // The page asks for itself: only the outermost request may.
  int runs = 0;
  configure("auth_request /page;", 200);
  page_.function = [&](Exchange& exchange) {
    ++runs;
    exchange.response().status = exchange.is_subrequest() ? 204 : 200;
    exchange.respond(nullptr);
    return StepOutcome::answered();
  };
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(runs, 2);
}

TEST_F(AuthRequestTest, SetsVariablesFromTheSubrequest) {
  configure(
      "auth_request /auth?x=1; auth_request_set $user $sent_http_x_user; auth_request_set $what "
      "$uri?$args; probe \"$user $what $uri\";",
      200);
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(probe, "eva /auth?x=1 /page");
}

TEST_F(AuthRequestTest, AssignsBuiltInVariables) {
  configure("auth_request /auth; auth_request_set $args $uri; probe $args;", 200);
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(probe, "/auth");
}

TEST_F(AuthRequestTest, TheClientMayGoAwayMeanwhile) {
  configure("auth_request /auth;", [](Exchange&) { return StepOutcome::suspend(); });
  request.emplace(worker, "/page");
  request->exchange.start();
  request->exchange.on_transport_lost(Error{Code::kReset, Party::kClient, 0, "client gone"});
  request.reset();
  worker.run_turn();
  EXPECT_EQ(worker.log.lines, std::vector<std::string>{"/page 499"});
}

TEST(AuthRequestDirective, InheritsAndRefuses) {
  const test::Compiled good = compile(
      "auth_request /a; auth_request_set $x 1; location /a { auth_request_set $y 2; "
      "auth_request_set $z 3; } location /b { auth_request off; }");
  ASSERT_TRUE(good) << good.text();
  EXPECT_EQ(test::kept_locations[0].get<AuthRequestSettings>().uri, "/a");
  EXPECT_EQ(test::kept_locations[0].get<AuthRequestSettings>().variables.size(), 2u);
  EXPECT_EQ(test::kept_locations[1].get<AuthRequestSettings>().uri, "");
  EXPECT_EQ(test::kept_locations[1].get<AuthRequestSettings>().variables.size(), 1u);
  for (std::string_view text :
       {"auth_request on;", "auth_request http://x/;", "auth_request_set user 1;",
        "auth_request_set $uri 1;", "auth_request_set $ 1;"}) {
    EXPECT_FALSE(compile(text)) << text;
  }
}

}  // namespace
}  // namespace corehttpd::access
