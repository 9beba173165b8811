// A stream's handshake: the client's hello chooses the site, slow keys sign in Offload.
#include <algorithm>
#include <array>
#include <utility>

#include "corehttpd/base/text.h"
#include "corehttpd/tls/stream.h"
#include "tls/openssl.h"
#include "tls/policy.h"
#include "tls/stream_callbacks.h"

namespace corehttpd::tls {
namespace {

constexpr std::size_t kNameMax = 255;
// As nginx has it.
constexpr std::uint32_t kEarlyDataMax = 16'384;
// A step's result.
constexpr int kEarlyData = 2;

// The host name of the extension server_name (RFC 6066 §3) in lower case without a trailing dot.
// False: what was sent is no list of names.
bool read_server_name(SSL* ssl, std::string& into) {
  const unsigned char* bytes = nullptr;
  std::size_t length = 0;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &length) != 1) return true;
  const auto number = [bytes](std::size_t at) {
    return static_cast<std::size_t>(bytes[at]) << 8 | bytes[at + 1];
  };
  // One list, in it one name: its kind, its length, itself.
  if (length < 5 || number(0) != length - 2 || bytes[2] != TLSEXT_NAMETYPE_host_name) return false;
  const std::size_t size = number(3);
  if (size == 0 || size > kNameMax || size + 5 > length) return false;
  into.assign(reinterpret_cast<const char*>(bytes) + 5, size);
  for (char& c : into) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return false;
    c = text::lower(c);
  }
  if (into.size() > 1 && into.back() == '.') into.pop_back();
  return true;
}

}  // namespace

void Stream::begin_plain() {
  state_ = State::kPlain;
  loop_.receive_stop(receive_);
}

void Stream::shake_hands() {
  if (ssl_ == nullptr) return fail_handshake("SSL_new() failed", false);
  if (slow_key_) return offload();
  static thread_local std::array<std::byte, SSL3_RT_MAX_PLAIN_LENGTH> early;
  Step made = step(early);
  if (made.result == kEarlyData) return begin_early(std::span(early).first(made.bytes));
  judge_handshake(std::move(made));
}

// In the loop or in a thread.
Stream::Step Stream::step(std::span<std::byte> early) {
  Step out;
  ERR_clear_error();
  if (early_ == Early::kTrying) {
    switch (SSL_read_early_data(ssl_, early.data(), early.size(), &out.bytes)) {
      case SSL_READ_EARLY_DATA_SUCCESS:
        out.result = kEarlyData;
        return out;
      case SSL_READ_EARLY_DATA_FINISH:
        early_ = Early::kNone;
        out.result = SSL_do_handshake(ssl_);
        break;
      default:
        break;
    }
  } else {
    out.result = SSL_do_handshake(ssl_);
  }
  if (out.result == 1) return out;
  out.error = SSL_get_error(ssl_, out.result);
  out.result = 0;
  if (out.error == SSL_ERROR_SSL) out.reason = take_error();
  return out;
}

void Stream::judge_handshake(Step made) {
  if (made.result == 1) return finish_handshake();
  switch (made.error) {
    case SSL_ERROR_WANT_CLIENT_HELLO_CB:
      return offload();
    case SSL_ERROR_WANT_READ:
      return flush();
    case SSL_ERROR_SSL:
      if (unnamed_)
        return fail_handshake("no certificate is for server name \"" + server_name_ + "\"", true);
      return fail_handshake("SSL_do_handshake() failed (SSL: " + made.reason + ")", true);
    default:
      return fail_handshake("SSL_do_handshake() failed", false);
  }
}

void Stream::open() {
  state_ = State::kOpen;
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(ssl_, &name, &length);
  // Lives as long as the stream.
  alpn_ = {reinterpret_cast<const char*>(name), length};
  std::exchange(owner_, nullptr)->on_handshake_done();
}

void Stream::finish_handshake() {
  open();
  // A first request that came along is served, and its response leaves with the tickets.
  decrypt();
  flush();
}

// The protocol begins before the handshake's end; our answers go to whom the ticket was given.
void Stream::begin_early(std::span<const std::byte> data) {
  early_ = Early::kReading;
  open();
  // Whoever takes a connection over begins to receive.
  if (user_ == nullptr) return fail_input("SSL_read_early_data()");
  deliver(*user_, data);
  decrypt();
  flush();
}

// What there is of early data and of the handshake's end. True when that is done and what follows
// is ordinary.
bool Stream::read_early(std::span<std::byte> plain) {
  int result = 0;
  while (early_ == Early::kReading) {
    std::size_t count = 0;
    ERR_clear_error();
    const int early = SSL_read_early_data(ssl_, plain.data(), plain.size(), &count);
    if (early == SSL_READ_EARLY_DATA_FINISH) {
      early_ = Early::kConfirming;
    } else if (early == SSL_READ_EARLY_DATA_SUCCESS) {
      if (user_ != nullptr) deliver(*user_, plain.first(count));
      if ((closing_ && !finishing()) || state_ != State::kOpen) return false;
    } else {
      break;
    }
  }
  if (early_ == Early::kConfirming) {
    ERR_clear_error();
    result = SSL_do_handshake(ssl_);
  }
  if (result == 1) {
    early_ = Early::kNone;
    if (std::exchange(shutdown_waits_, false)) shut_down_sending();
    return true;
  }
  if (SSL_get_error(ssl_, result) != SSL_ERROR_WANT_READ)
    fail_input(early_ == Early::kReading ? "SSL_read_early_data()" : "SSL_do_handshake()");
  return false;
}

void Stream::begin_finishing() {
  // The client's answer to our part of the handshake takes a round trip.
  constexpr Milliseconds kPatience = 1000;
  closing_ = true;
  user_ = nullptr;
  finishing_ = std::make_unique<Finishing>(*this);
  loop_.schedule(*finishing_, kPatience);
  loop_.receive(fd_, receive_);
  loop_.turn().post(turn_);
}

void Stream::finish_early() {
  static thread_local std::array<std::byte, SSL3_RT_MAX_PLAIN_LENGTH> plain;
  if (read_early(plain)) end_finishing();
}

void Stream::end_finishing() {
  if (!finishing()) return;
  finishing_->on = false;
  loop_.cancel(*finishing_);
  if (early_ == Early::kNone && send_error_ == 0 && !send_.pending()) {
    say_goodbye();
    send_now();
  }
  stop_asked_ = true;
  if (send_.pending()) loop_.cancel(send_);
  if (!receive_.idle()) loop_.receive_stop(receive_);
  tell_idle();
}

void Stream::fail_handshake(std::string text, bool client) {
  state_ = State::kFailed;
  if (!send_.pending()) send_now();
  if (owner_ == nullptr || closing_) return tell_idle();
  std::exchange(owner_, nullptr)->on_handshake_failed({std::move(text), client});
}

// --- In a thread. The loop does not touch the library's object meanwhile.

void Stream::offload() {
  keep_input();
  if (task_ == nullptr) task_ = std::make_unique<HandshakeTask>(*this);
  state_ = State::kOffloaded;
  if (loop_.offload(*task_)) return;
  state_ = State::kHandshake;
  fail_handshake("too many handshakes wait for their signature", false);
}

void Stream::HandshakeTask::run() noexcept {
  // Early data is not taken here, see apply().
  step = stream.step({});
}

void Stream::HandshakeTask::done() { stream.on_offload_done(); }

void Stream::on_offload_done() {
  state_ = State::kHandshake;
  put_output(task_->output.data(), task_->output.size());
  task_->output.clear();
  held_.insert(held_.end(), later_.begin(), later_.end());
  std::vector<std::byte>().swap(later_);
  if (closing_) return tell_idle();
  const bool waits = task_->step.result != 1 && task_->step.error == SSL_ERROR_WANT_READ;
  if (waits && ended_) return fail_handshake("peer closed connection in SSL handshake", true);
  judge_handshake(std::move(task_->step));
  if (waits && state_ == State::kHandshake && held_used_ < held_.size()) offload();
  if (state_ == State::kOpen) tell_end();
}

// --- The client's hello.

int Stream::on_client_hello(int* alert) {
  if (policy_ != nullptr) return SSL_CLIENT_HELLO_SUCCESS;
  if (!read_server_name(ssl_, server_name_)) {
    *alert = SSL_AD_DECODE_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
  }
  const Choice choice = owner_->choose(server_name_);
  if (choice.policy == nullptr || choice.policy->broken ||
      choice.policy->settings->reject_handshake) {
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_CLIENT_HELLO_ERROR;
  }
  http2_ = choice.http2;
  policy_ = choice.policy;
  if (!apply(*policy_)) {
    unnamed_ = true;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_CLIENT_HELLO_ERROR;
  }
  // The library asks to be called again, which a thread will do.
  return slow_key_ ? SSL_CLIENT_HELLO_RETRY : SSL_CLIENT_HELLO_SUCCESS;
}

// The context's certificates and ciphers count from here on; what a connection has copied from its
// first context is set anew.
// False: its certificates' paths have variables, and lead nowhere for the name that was sent.
bool Stream::apply(const SitePolicy& site) {
  const Policy& policy = *site.policy;
  SSL_CTX* context = policy.context.get();
  SSL_set_SSL_CTX(ssl_, context);
  SSL_clear_options(ssl_, SSL_get_options(ssl_) & ~SSL_CTX_get_options(context));
  SSL_set_options(ssl_, SSL_CTX_get_options(context));
  SSL_set_min_proto_version(ssl_, policy.protocol_min);
  SSL_set_max_proto_version(ssl_, policy.protocol_max);
  SSL_set_verify(ssl_, SSL_CTX_get_verify_mode(context), SSL_CTX_get_verify_callback(context));
  SSL_set_verify_depth(ssl_, SSL_CTX_get_verify_depth(context));
  if (!policy.curves.empty()) SSL_set1_groups_list(ssl_, policy.curves.c_str());
  SSL_set_session_id_context(ssl_, site.session_context.data(), site.session_context.size());
  // Tickets of TLS 1.3 that nobody could redeem are not sent.
  if (!site.settings->session_tickets && site.session_cache == nullptr)
    SSL_set_num_tickets(ssl_, 0);
  bool any = site.patterns.empty();
  each_credential([&](const Credential& one) {
    any = true;
    slow_key_ |= one.slow;
  });
  // A thread must not look at what the loop may replace meanwhile.
  if (slow_key_) use_certificates();
  // Not from whom a certificate is asked: the site may want to see it first. Resumed sessions sign
  // nothing, but whether one is resumed shows only in the thread where slow keys would sign.
  const bool early = site.settings->early_data && early_ == Early::kTrying && !slow_key_ &&
                     site.settings->verify == VerifyClient::kOff;
  if (early) SSL_set_max_early_data(ssl_, kEarlyDataMax);
  ERR_clear_error();
  return any;
}

template <class Function>
void Stream::each_credential(const Function& function) const {
  // As in nginx the last of a kind counts, and one of ssl_conf_command, which the context has
  // already, before all: what is given first stays.
  const auto& own = policy_->credentials;
  for (auto one = own.rbegin(); one != own.rend(); ++one) function(**one);
  for (const CredentialPattern* pattern : policy_->patterns) {
    if (const Credential* one = store_.find(*pattern, server_name_)) function(*one);
  }
}

void Stream::use_certificates() {
  each_credential([&](const Credential& one) {
    SSL_use_cert_and_key(ssl_, one.certificate.get(), one.key.get(), one.chain.get(), 0);
  });
  ERR_clear_error();
}

}  // namespace corehttpd::tls
