#include "corehttpd/http/subrequest.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <optional>

#include "corehttpd/http/memory_source.h"
#include "unit/http/fake_worker.h"

namespace corehttpd::http {
namespace {

using testing::FakeRequest;
using testing::FakeWorker;

struct LambdaStep final : Step {
  std::function<StepOutcome(Exchange&)> function;
  StepOutcome run(Exchange& exchange) const override { return function(exchange); }
};

struct NoteListener final : SubrequestListener {
  void on_head(Subrequest& child) override {
    events += "head ";
    status = child.exchange().response().status;
    if (on_head_call) on_head_call(child);
  }
  void on_body_ready(Subrequest& child) override {
    events += "ready ";
    if (on_ready_call) on_ready_call(child);
  }
  void on_done(Subrequest& child, const Error* failure) override {
    events += failure == nullptr ? "done " : "failed ";
    uri = child.exchange().uri();
    if (failure != nullptr) error = *failure;
  }
  std::function<void(Subrequest&)> on_head_call, on_ready_call;
  std::string events, uri;
  std::uint16_t status = 0;
  Error error{Code::kOk};
};

// Says kBlocked until fed.
struct FedSource final : BodySource {
  Result<ReadOutcome> read(std::span<Segment> out, std::size_t, Forms) override {
    if (fail_next) return fail(Code::kReset, "origin", 0, Party::kOrigin);
    if (text.empty()) return ReadOutcome{0, closed ? Next::kEnd : Next::kBlocked};
    out[0] = Segment::from_static(std::exchange(text, {}));
    return ReadOutcome{1, closed ? Next::kEnd : Next::kMore};
  }
  void cancel() noexcept override { ++cancels; }
  std::string_view text;
  bool closed = false, fail_next = false;
  int cancels = 0;
};

std::string pull(Subrequest& child) {
  std::string text;
  for (;;) {
    Segment out[2];
    const auto outcome = child.read(out, 1000);
    if (!outcome) return text + "!";
    for (std::uint32_t i = 0; i < outcome->segments; ++i) text.append(out[i].view());
    if (outcome->next == Next::kBlocked) return text + "~";
    if (outcome->next == Next::kEnd) return text + ".";
  }
}

class SubrequestTest : public ::testing::Test {
 protected:
  // A location at uri whose content step is function.
  void serve(std::string_view uri, std::function<StepOutcome(Exchange&)> function) {
    LambdaStep& step = steps_.emplace_back();
    step.function = std::move(function);
    const Step*& slot = slots_.emplace_back(&step);
    Location& location = locations_.emplace_back();
    location.settings = worker.settings.view();
    location.pipeline.steps = {&slot, 1};
    location.internal = true;
    worker.sites.add(uri, location);
  }
  static StepOutcome answer(Exchange& exchange, std::uint16_t status, BodySource* body) {
    exchange.response().status = status;
    exchange.respond(body);
    return StepOutcome::answered();
  }
  Subrequest* start(std::string_view uri,
                    SubrequestOptions::Body body = SubrequestOptions::Body::kDiscard) {
    const auto child = Subrequest::start(parent->exchange, uri, "a=1", {.body = body}, listener);
    EXPECT_TRUE(child);
    return child.value_or(nullptr);
  }
  std::deque<LambdaStep> steps_;
  std::deque<const Step*> slots_;
  std::deque<Location> locations_;
  FakeWorker worker;
  std::optional<FakeRequest> parent{std::in_place, worker, "/page?x=y"};
  NoteListener listener;
};

TEST_F(SubrequestTest, TellsTheHeadAtTheEndOfTheTurnAndDropsTheBody) {
  FedSource source;
  serve("/auth", [&](Exchange& exchange) { return answer(exchange, 202, &source); });
  start("/auth");
  EXPECT_EQ(listener.events, "");
  worker.run_turn();
  EXPECT_EQ(listener.events, "head done ");
  EXPECT_EQ(listener.status, 202);
  EXPECT_EQ(listener.uri, "/auth");
  EXPECT_EQ(source.cancels, 1);
  EXPECT_FALSE(parent->transport.head_sent);
}

TEST_F(SubrequestTest, SeesTheParentsFieldsButNotItsBodyOrPreconditions) {
  parent->exchange.request().content_length = 5;
  parent->exchange.request().body_expected = true;
  for (std::string_view name :
       {"Cookie", "Content-Length", "Transfer-Encoding", "Expect", "Range", "If-Range", "If-Match",
        "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Accept-Encoding", "X-Own"}) {
    parent->field(name, "v");
  }
  parent->exchange.set_method(Method::kPost);
  std::string names;
  std::string facts;
  const auto look = [&](Exchange& exchange) {
    names.clear();
    for (const Field& field : exchange.request().fields) names += std::string(field.name) + " ";
    facts = std::string(exchange.request().method_text) + " " + std::string(exchange.uri()) + " " +
            std::string(exchange.args()) + " " + std::string(exchange.request().target);
    EXPECT_TRUE(exchange.internal());
    EXPECT_TRUE(exchange.is_subrequest());
    EXPECT_EQ(&exchange.main(), &parent->exchange);
    EXPECT_FALSE(exchange.request().body_expected);
    EXPECT_FALSE(exchange.request().content_length);
    return answer(exchange, 200, nullptr);
  };
  serve("/auth", look);
  start("/auth");
  EXPECT_EQ(names, "Cookie Accept-Encoding X-Own ");
  EXPECT_EQ(facts, "GET /auth a=1 /page?x=y");
  start("/auth", SubrequestOptions::Body::kPull);
  EXPECT_EQ(names, "Cookie X-Own ");
  EXPECT_EQ(parent->exchange.request().fields.size(), 12u);
  worker.run_turn();
}

TEST_F(SubrequestTest, PullsABodyAsItComes) {
  FedSource source;
  Exchange* inner = nullptr;
  serve("/part", [&](Exchange& exchange) {
    inner = &exchange;
    return answer(exchange, 200, &source);
  });
  std::string text;
  listener.on_head_call = listener.on_ready_call = [&](Subrequest& child) { text += pull(child); };
  start("/part", SubrequestOptions::Body::kPull);
  worker.run_turn();
  EXPECT_EQ(text, "~");
  source.text = "one";
  inner->transport().body_ready();
  worker.run_turn();
  EXPECT_EQ(text, "~one~");
  source.text = "two";
  source.closed = true;
  inner->transport().body_ready();
  worker.run_turn();
  EXPECT_EQ(text, "~one~two.");
  EXPECT_EQ(listener.events, "head ready ready done ");
  EXPECT_EQ(source.cancels, 0);
}

TEST_F(SubrequestTest, AFailingSourceFailsTheChildOnly) {
  FedSource source;
  source.fail_next = true;
  serve("/part", [&](Exchange& exchange) { return answer(exchange, 200, &source); });
  listener.on_head_call = [&](Subrequest& child) { EXPECT_EQ(pull(child), "!"); };
  start("/part", SubrequestOptions::Body::kPull);
  worker.run_turn();
  EXPECT_EQ(listener.events, "head failed ");
  EXPECT_EQ(listener.error.party, Party::kOrigin);
  EXPECT_FALSE(parent->transport.was_reset);
}

TEST_F(SubrequestTest, FailuresArriveAsStatus) {
  serve("/auth", [](Exchange&) { return StepOutcome::fail(403); });
  start("/auth");
  worker.run_turn();
  EXPECT_EQ(listener.status, 403);
  start("/nowhere");
  worker.run_turn();
  EXPECT_EQ(listener.status, 404);
}

TEST_F(SubrequestTest, ReachesNamedLocations) {
  serve("@auth", [](Exchange& exchange) { return answer(exchange, 204, nullptr); });
  parent->exchange.set_uri("/page");
  start("@auth");
  worker.run_turn();
  EXPECT_EQ(listener.status, 204);
  EXPECT_EQ(listener.uri, "/page");
}

struct Suspended final : AbortHook {
  Suspended()
      : AbortHook(
            [](AbortHook& hook, const Error&) { static_cast<Suspended&>(hook).aborted = true; }) {}
  bool aborted = false;
};

TEST_F(SubrequestTest, TheParentsEndAbortsTheChildSilently) {
  Suspended hook;
  serve("/slow", [&](Exchange& exchange) {
    exchange.on_abort(hook);
    return StepOutcome::suspend();
  });
  start("/slow");
  worker.run_turn();
  parent->exchange.on_transport_lost(Error{Code::kReset, Party::kClient, 0, "client gone"});
  EXPECT_TRUE(hook.aborted);
  worker.run_turn();
  EXPECT_EQ(listener.events, "");
}

TEST_F(SubrequestTest, TheParentMayEndWhileAHeadIsPending) {
  FedSource source;
  serve("/auth", [&](Exchange& exchange) { return answer(exchange, 200, &source); });
  start("/auth");
  parent->exchange.on_transport_lost(Error{Code::kReset, Party::kClient, 0, "client gone"});
  parent.reset();  // Even before the child, whose destruction waits for the end of the turn.
  worker.run_turn();
  EXPECT_EQ(listener.events, "");
  EXPECT_EQ(source.cancels, 1);
}

TEST_F(SubrequestTest, WithdrawFromWithinACallback) {
  FedSource source;
  serve("/part", [&](Exchange& exchange) { return answer(exchange, 200, &source); });
  listener.on_head_call = [](Subrequest& child) {
    child.withdraw();
    child.withdraw();
  };
  start("/part", SubrequestOptions::Body::kPull);
  worker.run_turn();
  EXPECT_EQ(listener.events, "head ");
  EXPECT_EQ(source.cancels, 1);
}

TEST_F(SubrequestTest, ResetByTheChild) {
  serve("/part", [](Exchange& exchange) {
    exchange.reset(Error{Code::kCancelled, Party::kSelf, 444, "closed without an answer"});
    return StepOutcome::answered();
  });
  start("/part");
  worker.run_turn();
  EXPECT_EQ(listener.events, "failed ");
  EXPECT_EQ(listener.error.detail, 444);
}

TEST_F(SubrequestTest, DepthIsBounded) {
  int children = 0;
  std::deque<NoteListener> listeners;
  bool refused = false;
  serve("/loop", [&](Exchange& exchange) {
    ++children;
    const auto child = Subrequest::start(exchange, "/loop", "", {}, listeners.emplace_back());
    if (child) return StepOutcome::suspend();
    refused = true;
    return answer(exchange, 200, nullptr);
  });
  start("/loop");
  EXPECT_TRUE(refused);
  EXPECT_EQ(children, Exchange::kSubrequestDepthMax);
  parent->exchange.on_transport_lost(Error{Code::kReset, Party::kClient, 0, "client gone"});
  worker.run_turn();
  EXPECT_EQ(listener.events, "");
}

TEST_F(SubrequestTest, IsLoggedOnlyWhenAsked) {
  serve("/auth", [](Exchange& exchange) { return answer(exchange, 200, nullptr); });
  start("/auth");
  worker.run_turn();
  EXPECT_TRUE(worker.log.lines.empty());
  worker.core.log_subrequest = true;
  start("/auth");
  worker.run_turn();
  ASSERT_EQ(worker.log.lines.size(), 1u);
  EXPECT_EQ(worker.log.lines[0], "/auth 200");
}

}  // namespace
}  // namespace corehttpd::http
