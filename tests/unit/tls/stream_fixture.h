// The stream on the simulated loop: a server that sends back what it receives, a client that is the
// library itself, between them a pretended kernel that moves what it likes.
#pragma once

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "corehttpd/base/check.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/diagnostics.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/route/tree.h"
#include "corehttpd/tls/replay_guard.h"
#include "corehttpd/tls/stream.h"
#include "corehttpd/tls/tickets.h"

namespace corehttpd::tls::testing {

inline std::string from_memory(BIO* bio) {
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
inline Pair make_pair(EVP_PKEY* key) {
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

inline void prepare(conf::Compiler& compiler) {
  static const std::array kTables = {expr::core_variables()};
  expr::prepare(compiler, kTables);
}

// A site with a key that signs quickly, or in Offload.
struct Site {
  explicit Site(bool slow, const std::string& more = {}) {
    const Pair pair = make_pair(slow ? EVP_RSA_gen(3072) : EVP_EC_gen("P-256"));
    static const std::array<const conf::Module*, 4> kModules = {
        &http::core_module(), &expr::expr_module(), &route::route_module(), &module()};
    conf::Options options;
    options.path = "/nonexistent/test.conf";
    options.prefix = "/nonexistent/";
    configuration = conf::compile_text(
        "http { server { listen 443 ssl; ssl_certificate \"data:" + pair.certificate +
            "\"; ssl_certificate_key \"data:" + pair.key + "\"; } " + more + " }",
        options, kModules, diagnostics, prepare);
    CORE_CHECK(configuration != nullptr);
    store = configuration->object<Store>();
    const auto& site = *configuration->object<route::Tree>()->sites()[0];
    policy = store->find(site.settings.get<Settings>());
    store->use(keys_);
    store->use(guard_);
  }
  static Site& quick() {
    static Site* const site = new Site(false);
    return *site;
  }
  static Site& slow() {
    static Site* const site = new Site(true);
    return *site;
  }
  // Takes early data.
  static Site& early() {
    static Site* const site = new Site(false, "ssl_early_data on;");
    return *site;
  }
  conf::Diagnostics diagnostics;
  std::unique_ptr<conf::Configuration> configuration;
  Store* store;
  const SitePolicy* policy;

 private:
  std::vector<std::uint64_t> key_memory_ = std::vector<std::uint64_t>(TicketKeys::data_bytes() / 8);
  std::vector<std::uint64_t> guard_memory_ = std::vector<std::uint64_t>(ReplayGuard::kSlots);
  TicketKeys keys_{std::as_writable_bytes(std::span(key_memory_))};
  ReplayGuard guard_{std::as_writable_bytes(std::span(guard_memory_))};
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
  ~Echo() { CORE_CHECK(closed_); }
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
  // With a session of an earlier client; so much of the data is sent before the handshake, and once
  // more after it if it was refused.
  void resume(SSL_SESSION* session, std::size_t early) {
    SSL_set_session(ssl_, session);
    early_ = early;
  }
  SSL_SESSION* session() const { return SSL_get1_session(ssl_); }
  bool early_accepted() const { return SSL_get_early_data_status(ssl_) == SSL_EARLY_DATA_ACCEPTED; }
  // True when something moved.
  bool pump(std::size_t write_max) {
    while (sent_ < early_) {
      std::size_t wrote = 0;
      CORE_CHECK(SSL_write_early_data(ssl_, to_send_.data() + sent_,
                                      std::min(write_max, early_ - sent_), &wrote) == 1);
      sent_ += wrote;
    }
    const std::string arrived = peer_.take();
    if (!arrived.empty()) BIO_write(in_, arrived.data(), static_cast<int>(arrived.size()));
    // Reading alone would go on to wait for more early data.
    if (early_ != 0 && !SSL_is_init_finished(ssl_)) SSL_do_handshake(ssl_);
    char buffer[16384];
    int got = 0;
    while ((got = SSL_read(ssl_, buffer, sizeof(buffer))) > 0)
      received.append(buffer, static_cast<std::size_t>(got));
    const std::size_t before = sent_;
    if (early_ != 0 && SSL_is_init_finished(ssl_) && !std::exchange(early_judged_, true) &&
        !early_accepted())
      sent_ = early_ = 0;
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
    if (length > 0) {
      std::string out(bytes, static_cast<std::size_t>(length));
      if (change != nullptr) change(out, change_context);
      peer_.push(out);
    }
    BIO_reset(out_);
    return !arrived.empty() || length > 0 || sent_ != before;
  }
  std::string received;
  bool said_goodbye = false;
  // What becomes of the client's bytes on their way.
  void (*change)(std::string& bytes, void* context) = nullptr;
  void* change_context = nullptr;

 private:
  io::SimPeer& peer_;
  std::string to_send_;
  std::size_t sent_ = 0;
  std::size_t early_ = 0;
  bool early_judged_ = false;
  SSL_CTX* context_;
  SSL* ssl_;
  BIO* in_;
  BIO* out_;
};

}  // namespace corehttpd::tls::testing
