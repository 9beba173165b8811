// Runs exchanges through the gateway to FastCGI servers that the test plays itself, on the
// simulated loop: time is virtual, transfers are cut and delayed as the seed says.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/upstream/gateway.h"
#include "support/compile.h"
#include "support/exchange.h"
#include "upstream/fastcgi_codec.h"

namespace corehttpd::upstream {

// What a FastCGI application says.
inline std::string record(int type, std::string_view content, int padding = 0) {
  std::string out{1,
                  static_cast<char>(type),
                  0,
                  1,
                  static_cast<char>(content.size() >> 8),
                  static_cast<char>(content.size() & 0xff),
                  static_cast<char>(padding),
                  0};
  return out.append(content).append(static_cast<std::size_t>(padding), '\0');
}
inline std::string out(std::string_view text) {
  std::string all;
  while (text.size() > 60'000) {
    all += record(6, text.substr(0, 60'000));
    text.remove_prefix(60'000);
  }
  return all + record(6, text);
}
inline std::string err(std::string_view text) { return record(7, text); }
inline std::string end() { return record(3, std::string(8, '\0')); }

// Takes a request apart: the content of each stream, joined.
struct Received {
  std::string params, body;
  bool params_ended = false, body_ended = false;
  explicit Received(std::string_view bytes) {
    while (bytes.size() >= 8) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
      const std::size_t length = byte(4) << 8 | byte(5);
      if (bytes.size() < 8 + length + byte(6)) break;
      const std::string_view content = bytes.substr(8, length);
      if (byte(1) == 4) params_ended |= length == 0;
      if (byte(1) == 4) params += content;
      if (byte(1) == 5) body_ended |= length == 0;
      if (byte(1) == 5) body += content;
      bytes.remove_prefix(8 + length + byte(6));
    }
  }
};

class TestProtocol final : public OriginProtocol {
 public:
  std::string_view scheme() const override { return "fastcgi"; }
  std::string_view title() const override { return "FastCGI"; }
  Segment encode_head(http::Exchange& exchange, std::uint64_t body_bytes,
                      bool keep) const override {
    const std::string length = std::to_string(body_bytes);
    const fastcgi::Param params[] = {{"URI", exchange.uri()}, {"CONTENT_LENGTH", length}};
    return fastcgi::encode_head(params, keep);
  }
  OriginCodec* make_codec(std::byte* storage) const override {
    return new (storage) fastcgi::Codec();
  }
};

class Gateway : public testing::Test, public http::Step {
 protected:
  Gateway() {
    log_fd = ::memfd_create("log", MFD_CLOEXEC);
    log_target.fd = log_fd;
    log_target.level = LogLevel::kInfo;
    set_process_log(&log_target);
    const conf::Module* modules[] = {&http::core_module()};
    compiled = test::compile("", modules);
    EXPECT_TRUE(compiled) << compiled.text();
    site.site.settings = site.location.settings = compiled.configuration->root;
    steps[0] = this;
    site.location.pipeline.steps = steps;
    add_peer("/run/a.sock");
    loop.on_connect([this](const sockaddr*, socklen_t) {
      if (connect_results.empty()) return 0;
      const int result = connect_results.front();
      connect_results.erase(connect_results.begin());
      return result;
    });
  }
  ~Gateway() override {
    finish();
    EXPECT_TRUE(loop.run_until_quiet());
    EXPECT_EQ(loop.blocks().in_use(), 0u);
    set_process_log(nullptr);
    ::close(log_fd);
  }

  http::StepOutcome run(http::Exchange& e) const override {
    if (e.uri() == "/internal") {
      e.response().status = 200;
      e.respond(nullptr);
      return http::StepOutcome::answered();
    }
    return pass_to_origin(e, {.protocol = &protocol,
                              .settings = &settings,
                              .group = &group,
                              .caught_diagnostics = caught});
  }

  void add_peer(std::string_view path) {
    Peer peer;
    peer.address = *io::parse_address("unix:" + std::string(path), 0);
    names.push_back(std::make_unique<std::string>(peer.address.to_string()));
    peer.name = *names.back();
    peers.push_back(peer);
    states.push_back({});
    states.back().effective_weight = 1;
    group.peers = peers;
    group.states = states;
    group.name = "backend";
  }

  // Starts a request; body_bytes >= 0: it has a body of that length.
  void start(std::string_view method = "GET", std::string_view target = "/x.php",
             std::int64_t body_bytes = -1) {
    transport = std::make_unique<test::FakeTransport>();
    exchange = std::make_unique<http::Exchange>(services, *transport, transport->info);
    http::RequestHead& head = exchange->request();
    head.method = http::parse_method(method);
    head.method_text = method;
    head.target = head.raw_path = target;
    head.request_line = exchange->arena().concat(method, " ", target, " HTTP/1.1");
    head.authority = "example.org";
    if (body_bytes >= 0) {
      head.body_expected = body_bytes > 0;
      head.content_length = static_cast<std::uint64_t>(body_bytes);
    }
    exchange->start();
    settle();
  }
  void settle() { EXPECT_TRUE(loop.run_until_blocked()); }
  void finish() {
    if (!exchange) return;
    if (!exchange->finished()) {
      if (transport->heads > 0) {
        exchange->on_sent();
      } else {
        lose_client();
      }
    }
    exchange.reset();
    settle();
  }
  void lose_client() {
    exchange->on_transport_lost({Code::kReset, Party::kClient, 0, "test"});
    settle();
  }
  // The origin's side of the newest connection.
  io::SimPeer* origin() {
    io::SimPeer* newest = nullptr;
    for (int fd = 3; fd < 256; ++fd) {
      io::SimPeer* peer = loop.peer_of(fd);
      if (peer != nullptr && std::ranges::find(seen, peer) == seen.end()) {
        seen.push_back(peer);
        current = newest = peer;
      }
    }
    return newest != nullptr ? newest : current;
  }
  // The origin sends and the client reads what it can.
  void answer(std::string_view bytes, bool close = true) {
    io::SimPeer* peer = origin();
    ASSERT_NE(peer, nullptr);
    peer->push(bytes);
    if (close) peer->finish();
    settle();
    transport->pull();
    settle();
  }
  std::string log_text() const {
    std::string text(static_cast<std::size_t>(::lseek(log_fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(log_fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }
  bool logged(std::string_view what) const {
    const bool found = log_text().find(what) != std::string::npos;
    EXPECT_TRUE(found) << "missing: " << what << "\nin: " << log_text();
    return found;
  }

  io::SimLoop loop{io::SimOptions{.seed = 7}};
  test::Compiled compiled;
  test::FixedSite site;
  const http::Step* steps[1];
  test::PlainErrors errors;
  test::CountingLog request_log;
  test::NoCounters counters;
  http::Services services{.loop = loop,
                          .turn = static_cast<io::Loop&>(loop).turn(),
                          .blocks = loop.blocks(),
                          .clock = loop.clock(),
                          .sites = site,
                          .errors = errors,
                          .log = request_log,
                          .counters = counters,
                          .transforms = {}};
  TestProtocol protocol;
  GatewaySettings settings;
  std::vector<std::unique_ptr<std::string>> names;
  std::vector<Peer> peers;
  std::vector<PeerState> states;
  Group group;
  std::vector<std::string_view> caught;
  std::vector<int> connect_results;
  std::vector<io::SimPeer*> seen;
  io::SimPeer* current = nullptr;
  int log_fd = -1;
  LogTarget log_target;
  std::unique_ptr<test::FakeTransport> transport;
  std::unique_ptr<http::Exchange> exchange;
};

}  // namespace corehttpd::upstream
