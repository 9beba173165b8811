// A stream's handshake: the client's hello chooses the site, slow keys sign in Offload.
#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/tls/stream.h"
#include "tls/openssl.h"
#include "tls/policy.h"
#include "tls/stream_callbacks.h"

namespace corehttpd::tls {
namespace {

constexpr std::size_t kNameMax = 255;

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
  if (policy_ != nullptr && policy_->slow_key) return offload();
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
  judge_handshake(result, error, error == SSL_ERROR_SSL ? take_error() : std::string());
}

void Stream::judge_handshake(int result, int error, std::string reason) {
  if (result == 1) return finish_handshake();
  switch (error) {
    case SSL_ERROR_WANT_CLIENT_HELLO_CB:
      return offload();
    case SSL_ERROR_WANT_READ:
      return flush();
    case SSL_ERROR_SSL:
      return fail_handshake("SSL_do_handshake() failed (SSL: " + reason + ")", true);
    default:
      return fail_handshake("SSL_do_handshake() failed", false);
  }
}

void Stream::finish_handshake() {
  state_ = State::kOpen;
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(ssl_, &name, &length);
  if (length != 0) alpn_ = length == 2 ? "h2" : "http/1.1";
  std::exchange(owner_, nullptr)->on_handshake_done();
  // A first request that came along is served, and its response leaves with the tickets.
  decrypt();
  flush();
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
  ERR_clear_error();
  result = SSL_do_handshake(stream.ssl_);
  error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(stream.ssl_, result);
  reason = error == SSL_ERROR_SSL ? take_error() : std::string();
}

void Stream::HandshakeTask::done() { stream.on_offload_done(); }

void Stream::on_offload_done() {
  state_ = State::kHandshake;
  put_output(task_->output.data(), task_->output.size());
  task_->output.clear();
  held_.insert(held_.end(), later_.begin(), later_.end());
  later_ = {};
  if (closing_) return tell_idle();
  const bool waits = task_->result != 1 && task_->error == SSL_ERROR_WANT_READ;
  if (waits && ended_) return fail_handshake("peer closed connection in SSL handshake", true);
  judge_handshake(task_->result, task_->error, std::move(task_->reason));
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
  apply(*policy_);
  // The library asks to be called again, which a thread will do.
  return policy_->slow_key ? SSL_CLIENT_HELLO_RETRY : SSL_CLIENT_HELLO_SUCCESS;
}

// The context's certificates and ciphers count from here on; what a connection has copied from its
// first context is set anew.
void Stream::apply(const SitePolicy& site) {
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
  ERR_clear_error();
}

}  // namespace corehttpd::tls
