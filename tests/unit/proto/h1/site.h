// A worker on the simulated loop with a few locations, and clients that speak raw HTTP/1 to it.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/http/memory_source.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/proto/acceptor.h"
#include "proto/h2/settings.h"
#include "unit/http/fake_worker.h"

namespace corehttpd::h1::testing {

using http::Exchange;
using http::StepOutcome;

inline std::string pattern(std::size_t size) {
  // Made once: hundreds of sites are.
  static const std::string all = [] {
    std::string text(3'000'000, '\0');
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>('a' + (i * 31 + i / 251) % 26);
    return text;
  }();
  return all.substr(0, size);
}

// A descriptor of a file with three million bytes of it.
inline int pattern_file() {
  static const int fd = [] {
    const int made = memfd_create("site", MFD_CLOEXEC);
    const std::string text = pattern(3'000'000);
    EXPECT_EQ(static_cast<ssize_t>(text.size()), ::write(made, text.data(), text.size()));
    return made;
  }();
  return ::dup(fd);
}

// Answers 200 with a text; announced: what Content-Length says, SIZE_MAX: nothing.
struct TextStep final : http::Step {
  explicit TextStep(std::string the_text, std::size_t the_announced)
      : text(std::move(the_text)), announced(the_announced) {}
  explicit TextStep(std::string the_text) : TextStep(the_text, the_text.size()) {}
  StepOutcome run(Exchange& exchange) const override {
    exchange.response().status = 200;
    exchange.response().content_type = "text/plain";
    if (announced != SIZE_MAX) exchange.response().content_length = announced;
    exchange.respond(exchange.arena().make<http::StaticSource>(text));
    return StepOutcome::answered();
  }
  std::string text;
  std::size_t announced;
};

// A file, as file segments if the transport takes them.
struct FileStep final : http::Step {
  explicit FileStep(std::size_t the_size) : file(FileRef::adopt(pattern_file())), size(the_size) {}
  struct Source final : http::BodySource {
    Source(FileRef the_file, std::size_t the_left) : file(std::move(the_file)), left(the_left) {}
    Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                   http::Forms forms) override {
      EXPECT_EQ(forms, http::Forms::kFiles);
      const std::size_t part = std::min(left, bytes_max);
      out[0] = Segment::from_file(file, offset, part);
      offset += part;
      left -= part;
      return http::ReadOutcome{1, left == 0 ? http::Next::kEnd : http::Next::kMore};
    }
    FileRef file;
    std::size_t offset = 0, left;
  };
  StepOutcome run(Exchange& exchange) const override {
    exchange.response().status = 200;
    exchange.response().content_length = size;
    exchange.respond(exchange.arena().make<Source>(file, size));
    return StepOutcome::answered();
  }
  FileRef file;
  std::size_t size;
};

// Reads the whole request body, then answers with it.
struct EchoStep final : http::Step {
  struct State final : http::RequestBody::Waiter {
    Exchange* exchange = nullptr;
    bool at_once = true;
    std::uint16_t failed = 0;
    bool done = false;
    void on_body(std::uint16_t status) override {
      done = true;
      failed = status;
      if (!at_once) exchange->resume(answer());
    }
    StepOutcome answer() {
      if (failed != 0) return StepOutcome::fail(failed);
      exchange->response().status = 200;
      exchange->response().content_length = exchange->body().size();
      exchange->respond(exchange->body().reader(exchange->arena()));
      return StepOutcome::answered();
    }
  };
  StepOutcome run(Exchange& exchange) const override {
    auto& state = exchange.state<State>();
    state.exchange = &exchange;
    exchange.body().buffer(state);
    state.at_once = false;
    return state.done ? state.answer() : StepOutcome::suspend();
  }
};

// Pieces of unknown total length, one each 100 ms of virtual time, then perhaps an error.
struct DripStep final : http::Step {
  DripStep(io::Loop& the_loop, int the_pieces, bool the_fails)
      : loop(the_loop), pieces(the_pieces), fails(the_fails) {}
  struct Source final : http::BodySource {
    struct Tick : io::Timer {
      Tick(Fire fire, Source& the_owner) : io::Timer(fire), owner(the_owner) {}
      Source& owner;
    };
    Source(Exchange& the_exchange, io::Loop& the_loop, int the_left, bool the_fails)
        : exchange(the_exchange),
          loop(the_loop),
          left(the_left),
          fails(the_fails),
          tick(
              [](io::Timer& timer) {
                auto& self = static_cast<Tick&>(timer).owner;
                self.ready = true;
                self.exchange.transport().body_ready();
              },
              *this) {}
    Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t, http::Forms) override {
      if (!ready) {
        loop.schedule(tick, 100);
        return http::ReadOutcome{0, http::Next::kBlocked};
      }
      ready = false;
      if (left == 0 && fails) return fail(Code::kReset, "origin", 0, Party::kOrigin);
      if (left == 0) return http::ReadOutcome{0, http::Next::kEnd};
      --left;
      out[0] = Segment::from_static("0123456789abcdefX");
      return http::ReadOutcome{1, http::Next::kMore};
    }
    const http::FieldList* trailers() override { return &end_fields; }
    Exchange& exchange;
    io::Loop& loop;
    int left;
    bool fails;
    bool ready = false;
    Tick tick;
    http::FieldList end_fields;
  };
  StepOutcome run(Exchange& exchange) const override {
    exchange.response().status = 200;
    auto* source = exchange.arena().make<Source>(exchange, loop, pieces, fails);
    if (!exchange.args().empty())
      source->end_fields.add(exchange.arena(), "X-Sum", exchange.args());
    exchange.respond(source);
    return StepOutcome::answered();
  }
  io::Loop& loop;
  int pieces;
  bool fails;
};

// Never answers; counts how often it was told to forget it.
struct HangStep final : http::Step {
  struct State {
    struct Hook : http::AbortHook {
      Hook()
          : http::AbortHook(
                [](http::AbortHook& hook, const Error&) { ++*static_cast<Hook&>(hook).count; }) {}
      int* count = nullptr;
    } hook;
  };
  StepOutcome run(Exchange& exchange) const override {
    auto& state = exchange.state<State>();
    state.hook.count = &aborted;
    exchange.on_abort(state.hook);
    return StepOutcome::suspend();
  }
  mutable int aborted = 0;
};

struct RedirectStep final : http::Step {
  StepOutcome run(Exchange& exchange) const override {
    exchange.response().location = "/there";
    exchange.response().status = 301;
    exchange.respond(nullptr);
    return StepOutcome::answered();
  }
};

struct CountingCounters final : http::Counters {
  void request_started() override { ++requests; }
  void connection_accepted() override { ++accepted; }
  void connection_closed() override { ++closed; }
  void activity(Activity which, int change) override {
    now[static_cast<std::size_t>(which)] += change;
  }
  Snapshot snapshot() const override { return {}; }
  int requests = 0, accepted = 0, closed = 0;
  int now[3] = {};
};

inline io::SimOptions calm() { return {.seed = 1, .short_transfers = false, .delays = false}; }

class TestSite {
 public:
  explicit TestSite(const io::SimOptions& options = calm())
      : loop(options), core(settings.add<http::CoreSettings>()) {
    settings.add<h2::Settings>();  // Of the protocol that a preface leads to.
    core.error_log = &quiet;
    core.server_tokens = http::CoreSettings::Tokens::kOff;
    site.settings = settings.view();
    site.name = "example.org";
    endpoint.address = IpAddress::parse("127.0.0.1");
    endpoint.address.port = 8080;
    endpoint.text = "127.0.0.1:8080";
    endpoint.http2 = true;
    add("/hello", hello);
    add("/nolength", nolength);
    add("/big", big);
    add("/short", short_);
    add("/long", long_);
    add("/file", file);
    add("/echo", echo);
    add("/drip", drip);
    add("/break", breaks);
    add("/hang", hang);
    add("/redirect", redirect);
    acceptors = std::make_unique<proto::Acceptors>(services, 1000);
    listener = loop.listen();
    acceptors->add(listener, endpoint);
  }
  ~TestSite() {
    stop();
    EXPECT_TRUE(acceptors->connections().empty());
    EXPECT_EQ(counters.accepted, counters.closed);
    EXPECT_THAT(counters.now, ::testing::ElementsAre(0, 0, 0));  // Reading, writing, waiting.
    EXPECT_EQ(static_cast<int>(log.lines.size()), counters.requests);
    EXPECT_EQ(loop.blocks().in_use(), 0u);
    acceptors.reset();
    ::close(listener);
  }
  void stop() {
    acceptors->stop();
    acceptors->connections().close_now();
    EXPECT_TRUE(loop.run_until_quiet());
  }
  void add(std::string_view uri, const http::Step& step) {
    Place& place = places.emplace_back();
    place.step = &step;
    place.location.settings = settings.view();
    place.location.pipeline.steps = {&place.step, 1};
    place.location.name = uri;
    sites.add(uri, place.location);
  }
  io::SimPeer& connect() { return loop.connect_to(listener); }
  // Sends text on a new connection and runs until nothing more happens without the client or the
  // passing of time.
  io::SimPeer& talk(std::string_view text) {
    io::SimPeer& peer = connect();
    peer.push(text);
    EXPECT_TRUE(loop.run_until_blocked());
    return peer;
  }
  void run_for(Milliseconds time) {
    bool rang = false;
    struct Bell : io::Timer {
      Bell(Fire fire, bool& the_rang) : io::Timer(fire), rang(the_rang) {}
      bool& rang;
    } bell([](io::Timer& timer) { static_cast<Bell&>(timer).rang = true; }, rang);
    loop.schedule(bell, time);
    while (!rang) loop.run_once();
    EXPECT_TRUE(loop.run_until_blocked());
  }

  struct Place {
    const http::Step* step;
    http::Location location;
  };
  LogTarget quiet{.fd = -1, .level = LogLevel::kDebug};
  io::SimLoop loop;
  http::testing::FakeSettings settings;
  http::CoreSettings& core;
  http::Site site;
  http::Endpoint endpoint;
  std::deque<Place> places;
  http::testing::FakeSites sites{site};
  http::testing::PlainErrors errors;
  http::testing::NoteLog log;
  CountingCounters counters;
  http::Services services{loop,
                          static_cast<io::Loop&>(loop).turn(),
                          loop.blocks(),
                          loop.clock(),
                          sites,
                          errors,
                          log,
                          counters,
                          {}};
  TextStep hello{"hello"};
  TextStep nolength{"hello", SIZE_MAX};
  TextStep big{pattern(1'000'000)};
  TextStep short_{"hello", 10};
  TextStep long_{"hello", 3};
  FileStep file{3'000'000};
  EchoStep echo;
  DripStep drip{loop, 2, false};
  DripStep breaks{loop, 1, true};
  HangStep hang;
  RedirectStep redirect;
  std::unique_ptr<proto::Acceptors> acceptors;
  int listener = -1;
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  bool has(std::string_view line) const {
    return head.find("\r\n" + std::string(line) + "\r\n") != std::string::npos;
  }
};

// Takes one answer off the front of text as a strict client would; status 0 when there is none that
// is complete.
inline Answer take_answer(std::string& text, bool to_head = false) {
  Answer answer;
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos || !text.starts_with("HTTP/1.1 ")) return answer;
  answer.head = text.substr(0, end + 2);
  std::size_t at = end + 4;
  const int status = std::stoi(text.substr(9, 3));
  const std::size_t length = answer.head.find("\r\nContent-Length: ");
  if (status < 200 || to_head || status == 304 || status == 204) {
  } else if (answer.has("Transfer-Encoding: chunked")) {
    for (;;) {
      const std::size_t line = text.find("\r\n", at);
      if (line == std::string::npos) return {};
      const std::size_t size = std::stoul(text.substr(at, line - at), nullptr, 16);
      at = line + 2;
      if (size == 0) {
        const std::size_t last =
            text.find("\r\n", at) == at ? at + 2 : text.find("\r\n\r\n", at) + 4;
        answer.head += text.substr(at, last - at);
        at = last;
        break;
      }
      answer.body += text.substr(at, size);
      if (text.substr(at + size, 2) != "\r\n") return {};
      at += size + 2;
    }
  } else if (length != std::string::npos) {
    const std::size_t size = std::stoul(answer.head.substr(length + 18));
    if (text.size() - at < size) return {};
    answer.body = text.substr(at, size);
    at += size;
  } else {
    answer.body = text.substr(at);
    at = text.size();
  }
  text.erase(0, at);
  answer.status = status;
  return answer;
}

inline std::vector<Answer> take_all(std::string text) {
  std::vector<Answer> answers;
  while (!text.empty()) {
    answers.push_back(take_answer(text));
    if (answers.back().status == 0) break;
  }
  return answers;
}

}  // namespace corehttpd::h1::testing
