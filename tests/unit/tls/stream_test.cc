// The stream on the simulated loop: a server that sends back what it receives, a client that is the
// library itself, between them a pretended kernel that moves what it likes.
#include "corehttpd/tls/stream.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "corehttpd/expr/program.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/route/tree.h"
#include "support/compile.h"

namespace corehttpd::tls {
namespace {

std::string from_memory(BIO* bio) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio, &text);
  std::string out(text, static_cast<std::size_t>(length));
  BIO_free(bio);
  return out;
}

// "data:" texts of a self-signed certificate and its key.
struct Pair {
  std::string certificate, key;
};
Pair make_pair(EVP_PKEY* key) {
  X509* made = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), 0);
  X509_gmtime_adj(X509_getm_notAfter(made), 86400);
  X509_set_pubkey(made, key);
  X509_NAME* name = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(made, name);
  X509_sign(made, key, EVP_sha256());
  Pair out;
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, made);
  out.certificate = from_memory(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  out.key = from_memory(bio);
  X509_free(made);
  EVP_PKEY_free(key);
  return out;
}

void prepare(conf::Compiler& compiler) {
  static const std::array kTables = {expr::core_variables()};
  expr::prepare(compiler, kTables);
}

// A site with a key that signs quickly, or in Offload.
struct Site {
  explicit Site(bool slow) {
    const Pair pair = make_pair(slow ? EVP_RSA_gen(3072) : EVP_EC_gen("P-256"));
    static const std::array<const conf::Module*, 4> kModules = {
        &http::core_module(), &expr::expr_module(), &route::route_module(), &module()};
    compiled =
        test::compile("http { server { listen 443 ssl; ssl_certificate \"data:" + pair.certificate +
                          "\"; ssl_certificate_key \"data:" + pair.key + "\"; } }",
                      kModules, prepare);
    EXPECT_TRUE(compiled) << compiled.text();
    store = compiled.configuration->object<Store>();
    const auto& site = *compiled.configuration->object<route::Tree>()->sites()[0];
    policy = store->find(site.settings.get<Settings>());
  }
  static Site& quick() {
    static Site* const site = new Site(false);
    return *site;
  }
  static Site& slow() {
    static Site* const site = new Site(true);
    return *site;
  }
  test::Compiled compiled;
  const Store* store;
  const SitePolicy* policy;
};

class Echo final : private HandshakeOwner, private io::Receiver, private TurnTask {
 public:
  Echo(io::Loop& loop, int fd, Site& site)
      : TurnTask([](TurnTask& task) { static_cast<Echo&>(task).close(); }),
        loop_(loop),
        fd_(fd),
        policy_(site.policy),
        stream_(fd, loop, *site.store, *this),
        state_(*this, stopped),
        send_(sent, *this) {
    stream_.start();
  }
  ~Echo() { EXPECT_TRUE(closed_); }
  bool closed() const { return closed_; }
  std::string failure, plain;
  bool ended = false;
  void close() {
    ending_ = true;
    if (closed_) return;
    if (send_.pending()) return stream_.cancel(send_);
    if (!state_.idle() && state_.armed()) return stream_.receive_stop(state_);
    if (!state_.idle() || !stream_.close(*this)) return;
    ::close(fd_);
    closed_ = true;
  }

 private:
  struct Send : io::Operation {
    Send(Complete complete, Echo& e) : Operation(complete), echo(e) {}
    Echo& echo;
  };
  Choice choose(std::string_view) override { return {policy_, true}; }
  void on_handshake_done() override { stream_.receive(state_); }
  void on_handshake_failed(const HandshakeFailure& f) override {
    failure = f.text;
    loop_.turn().post(*this);
  }
  void on_plain_text() override {
    plain.assign(reinterpret_cast<const char*>(stream_.received().data()),
                 stream_.received().size());
    loop_.turn().post(*this);
  }
  void on_received(std::span<const std::byte> data) override {
    if (data.empty()) {
      ended = true;
    } else {
      buffer_.append(reinterpret_cast<const char*>(data.data()), data.size());
      stream_.receive_stop(state_);
    }
    go_on();
  }
  void on_receive_error(int) override { loop_.turn().post(*this); }
  static void stopped(io::ReceiveState& state) {
    Echo& echo = static_cast<Echo&>(state.receiver());
    echo.ending_ ? echo.close() : echo.go_on();
  }
  static void sent(io::Operation& operation, int result) {
    Echo& echo = static_cast<Send&>(operation).echo;
    if (result > 0) echo.buffer_.erase(0, static_cast<std::size_t>(result));
    if (result <= 0 || echo.ending_) return echo.loop_.turn().post(echo);
    echo.go_on();
  }
  void go_on() {
    if (ending_) return;
    if (ended && buffer_.empty()) return loop_.turn().post(*this);
    if (!buffer_.empty() && !send_.pending()) {
      // In two pieces, as heads and bodies are.
      const std::size_t half = buffer_.size() / 2;
      const iovec vectors[] = {{buffer_.data(), half},
                               {buffer_.data() + half, buffer_.size() - half}};
      stream_.send(vectors, false, send_);
    }
    if (buffer_.empty() && !ended && !state_.armed()) stream_.receive(state_);
  }

  io::Loop& loop_;
  int fd_;
  const SitePolicy* policy_;
  Stream stream_;
  io::ReceiveState state_;
  Send send_;
  std::string buffer_;
  bool ending_ = false;
  bool closed_ = false;
};

// The library's client; what it wants to send is pushed to the server's peer.
class Client {
 public:
  Client(io::SimPeer& peer, int version, std::string data)
      : peer_(peer), to_send_(std::move(data)) {
    context_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(context_, version);
    SSL_CTX_set_max_proto_version(context_, version);
    ssl_ = SSL_new(context_);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, in_, out_);
    SSL_set_connect_state(ssl_);
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  // True when something moved.
  bool pump(std::size_t write_max) {
    const std::string arrived = peer_.take();
    if (!arrived.empty()) BIO_write(in_, arrived.data(), static_cast<int>(arrived.size()));
    char buffer[16384];
    int got = 0;
    while ((got = SSL_read(ssl_, buffer, sizeof(buffer))) > 0)
      received.append(buffer, static_cast<std::size_t>(got));
    const std::size_t before = sent_;
    if (SSL_is_init_finished(ssl_) && sent_ < to_send_.size()) {
      const int count = static_cast<int>(std::min(write_max, to_send_.size() - sent_));
      const int wrote = SSL_write(ssl_, to_send_.data() + sent_, count);
      if (wrote > 0) sent_ += static_cast<std::size_t>(wrote);
    }
    if (received.size() == to_send_.size() && !said_goodbye) {
      said_goodbye = true;
      SSL_shutdown(ssl_);
    }
    char* bytes = nullptr;
    const long length = BIO_get_mem_data(out_, &bytes);
    if (length > 0) peer_.push({bytes, static_cast<std::size_t>(length)});
    BIO_reset(out_);
    return !arrived.empty() || length > 0 || sent_ != before;
  }
  std::string received;
  bool said_goodbye = false;

 private:
  io::SimPeer& peer_;
  std::string to_send_;
  std::size_t sent_ = 0;
  SSL_CTX* context_;
  SSL* ssl_;
  BIO* in_;
  BIO* out_;
};

std::string text(io::SimLoop& loop, std::size_t bytes_max) {
  std::string out(1 + loop.random(bytes_max), '\0');
  for (char& c : out) c = static_cast<char>('a' + loop.random(26));
  return out;
}

void run(io::SimLoop& loop, Client& client) {
  for (int idle = 0; idle < 3;) {
    ASSERT_TRUE(loop.run_until_blocked());
    idle = client.pump(1 + loop.random(20'000)) ? 0 : idle + 1;
  }
}

class StreamSimulation : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, StreamSimulation, ::testing::Range(1, 61));

TEST_P(StreamSimulation, EveryByteComesBackInOrder) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed),
                                  .window_bytes = seed % 3 == 0 ? 700u : 30'000u});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), seed % 4 == 0 ? Site::slow() : Site::quick());
  const std::string data = text(loop, 200'000);
  Client client(peer, seed % 2 == 0 ? TLS1_2_VERSION : TLS1_3_VERSION, data);
  run(loop, client);
  EXPECT_EQ(client.received.size(), data.size());
  EXPECT_TRUE(client.received == data);
  EXPECT_TRUE(echo.ended);  // The client's close_notify.
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
}

TEST_P(StreamSimulation, ResetsAnywhereLeaveNothingBehind) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{
      .seed = static_cast<std::uint64_t>(seed), .resets_per_mille = 30, .window_bytes = 5000});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), seed % 4 == 0 ? Site::slow() : Site::quick());
  Client client(peer, seed % 2 == 0 ? TLS1_2_VERSION : TLS1_3_VERSION, text(loop, 100'000));
  run(loop, client);
  if (!echo.closed()) peer.reset();
  ASSERT_TRUE(loop.run_until_quiet());
  echo.close();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
}

TEST_P(StreamSimulation, ClosesInAnyState) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed), .window_bytes = 2000});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), seed % 4 == 0 ? Site::slow() : Site::quick());
  Client client(peer, TLS1_3_VERSION, text(loop, 100'000));
  for (std::uint64_t turns = loop.random(60); turns > 0; --turns) {
    loop.run_once();
    client.pump(5000);
  }
  echo.close();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_TRUE(echo.closed());
  EXPECT_EQ(loop.outstanding(), 0u);
}

TEST_P(StreamSimulation, GarbageIsNoHandshake) {
  const int seed = GetParam();
  io::SimLoop loop(io::SimOptions{.seed = static_cast<std::uint64_t>(seed)});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), Site::quick());
  peer.push("\x16\x03\x01" + text(loop, 3000));
  peer.finish();
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_FALSE(echo.failure.empty());
  EXPECT_TRUE(echo.closed());
}

TEST(Stream, PlainTextIsHandedOn) {
  io::SimLoop loop(io::SimOptions{.seed = 1, .short_transfers = false});
  io::SimPeer& peer = loop.connect_pair();
  Echo echo(loop, peer.fd(), Site::quick());
  peer.push("GET / HTTP/1.1\r\n");
  ASSERT_TRUE(loop.run_until_quiet());
  EXPECT_EQ(echo.plain, "GET / HTTP/1.1\r\n");
  EXPECT_TRUE(echo.closed());
}

}  // namespace
}  // namespace corehttpd::tls
