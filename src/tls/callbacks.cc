#include "tls/callbacks.h"

#include <openssl/core_names.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "corehttpd/tls/replay_guard.h"
#include "corehttpd/tls/session_cache.h"
#include "corehttpd/tls/tickets.h"
#include "tls/policy.h"
#include "tls/stream_callbacks.h"

namespace corehttpd::tls {
namespace {

constexpr unsigned char kHttp2AndHttp1[] = "\x02h2\x08http/1.1\x08http/1.0\x08http/0.9";
constexpr unsigned char kHttp1[] = "\x08http/1.1\x08http/1.0\x08http/0.9";

bool set_up_cipher(EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, const NamedTicketKey& named,
                   const unsigned char* iv, bool encrypt) {
  char digest[] = "SHA256";
  auto* mac_key = const_cast<unsigned char*>(named.key.mac.data());
  const std::size_t mac_bytes = named.small ? 16 : named.key.mac.size();
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, mac_key, mac_bytes),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end(),
  };
  if (EVP_MAC_CTX_set_params(mac, parameters) != 1) return false;
  // Fetched once; by way of EVP_aes_256_cbc() the library would look it up each time.
  static EVP_CIPHER* const aes128 = EVP_CIPHER_fetch(nullptr, "AES-128-CBC", nullptr);
  static EVP_CIPHER* const aes256 = EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr);
  const EVP_CIPHER* const kind = named.small ? aes128 : aes256;
  return EVP_CipherInit_ex(cipher, kind, nullptr, named.key.aes.data(), iv, encrypt ? 1 : 0) == 1;
}

// The key that encrypts for a site; false: none does.
bool newest_key(const SitePolicy& site, TicketKeys* ours, NamedTicketKey& into) {
  if (!site.ticket_keys.empty()) {
    into = site.ticket_keys.front();
  } else if (ours != nullptr) {
    into.key = ours->current(std::time(nullptr));
  } else {
    return false;
  }
  return true;
}

// The key of that name; renew: it is not the newest.
bool find_key(const SitePolicy& site, TicketKeys* ours, std::span<const unsigned char> name,
              NamedTicketKey& into, bool& renew) {
  for (const NamedTicketKey& one : site.ticket_keys) {
    if (!std::equal(name.begin(), name.end(), one.key.name.begin(), one.key.name.end())) continue;
    into = one;
    renew = &one != &site.ticket_keys.front();
    return true;
  }
  if (!site.ticket_keys.empty() || ours == nullptr) return false;
  const auto found = ours->find(name);
  if (!found) return false;
  into.key = found->key;
  renew = found->renew;
  return true;
}

}  // namespace

int StreamCallbacks::client_hello(SSL* ssl, int* alert, void*) {
  return of(ssl).on_client_hello(alert);
}

// A client that speaks neither is served HTTP/1.1 without having agreed on it, as in nginx.
int StreamCallbacks::choose_protocol(SSL* ssl, const unsigned char** out, unsigned char* out_length,
                                     const unsigned char* in, unsigned in_length, void*) {
  const bool http2 = of(ssl).http2_;
  const unsigned char* ours = http2 ? kHttp2AndHttp1 : kHttp1;
  const auto length =
      static_cast<unsigned>(http2 ? sizeof(kHttp2AndHttp1) - 1 : sizeof(kHttp1) - 1);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_length, ours, length, in, in_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Not asked on resumption: a resumed session needs no certificate, and keeps the time that it was
// given.
int StreamCallbacks::on_certificate(SSL* ssl, void*) {
  Stream& stream = of(ssl);
  if (stream.policy_ == nullptr) return 1;
  if (!stream.slow_key_) stream.use_certificates();
  if (SSL_SESSION* session = SSL_get_session(ssl))
    SSL_SESSION_set_timeout(session,
                            static_cast<long>(stream.policy_->settings->session_timeout / 1000));
  return 1;
}

int StreamCallbacks::ticket_key(SSL* ssl, unsigned char* name, unsigned char* iv,
                                EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int encrypt) {
  const Stream& stream = of(ssl);
  TicketKeys* ours = stream.store_.ticket_keys();
  if (stream.policy_ == nullptr) return 0;
  NamedTicketKey key;
  constexpr int kIvBytes = 16;
  int result = 0;
  if (encrypt != 0) {
    if (!newest_key(*stream.policy_, ours, key)) return 0;
    std::memcpy(name, key.key.name.data(), key.key.name.size());
    const bool ok = RAND_bytes(iv, kIvBytes) == 1 && set_up_cipher(cipher, mac, key, iv, true);
    result = ok ? 1 : -1;
  } else {
    bool renew = false;
    if (!find_key(*stream.policy_, ours, {name, sizeof(TicketKey::name)}, key, renew)) return 0;
    const bool ok = set_up_cipher(cipher, mac, key, iv, false);
    // TLS 1.3 makes a new one anyway.
    result = !ok ? -1 : renew || SSL_version(ssl) == TLS1_3_VERSION ? 2 : 1;
  }
  OPENSSL_cleanse(&key, sizeof(key));
  return result;
}

// A refusal costs the client a round trip: what it sent is skipped, and it sends it again.
int StreamCallbacks::allow_early_data(SSL* ssl, void*) {
  ReplayGuard* guard = of(ssl).store_.replay_guard();
  std::array<unsigned char, SSL3_RANDOM_SIZE> random;
  timespec now{};
  if (guard == nullptr || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0 ||
      SSL_get_client_random(ssl, random.data(), random.size()) != random.size())
    return 0;
  return guard->first(random, now.tv_sec) ? 1 : 0;
}

// What a ticket holds is not kept as well.
int StreamCallbacks::new_session(SSL* ssl, SSL_SESSION* session) {
  const SitePolicy* site = of(ssl).policy_;
  if (site == nullptr || site->session_cache == nullptr) return 0;
  if (SSL_version(ssl) == TLS1_3_VERSION && site->settings->session_tickets) return 0;
  std::array<unsigned char, SessionCache::kSessionMax> bytes;
  unsigned char* end = bytes.data();
  const int size = i2d_SSL_SESSION(session, nullptr);
  if (size <= 0 || static_cast<std::size_t>(size) > bytes.size()) return 0;
  i2d_SSL_SESSION(session, &end);
  unsigned length = 0;
  const unsigned char* id = SSL_SESSION_get_id(session, &length);
  const std::int64_t now = std::time(nullptr);
  site->session_cache->store({id, length}, std::span(bytes).first(static_cast<std::size_t>(size)),
                             now, now + site->settings->session_timeout / 1000);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return 0;
}

SSL_SESSION* StreamCallbacks::find_session(SSL* ssl, const unsigned char* id, int length,
                                           int* copy) {
  *copy = 0;
  const SitePolicy* site = of(ssl).policy_;
  if (site == nullptr || site->session_cache == nullptr || length <= 0) return nullptr;
  std::string bytes;
  if (!site->session_cache->find({id, static_cast<std::size_t>(length)}, std::time(nullptr), bytes))
    return nullptr;
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  SSL_SESSION* session = d2i_SSL_SESSION(nullptr, &begin, static_cast<long>(bytes.size()));
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return session;
}

void install_session_callbacks(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, StreamCallbacks::new_session);
  SSL_CTX_sess_set_get_cb(context, StreamCallbacks::find_session);
}

void install_base_callbacks(SSL_CTX* context) {
  SSL_CTX_set_client_hello_cb(context, StreamCallbacks::client_hello, nullptr);
  SSL_CTX_set_allow_early_data_cb(context, StreamCallbacks::allow_early_data, nullptr);
  SSL_CTX_set_tlsext_ticket_key_evp_cb(context, StreamCallbacks::ticket_key);
}

void install_callbacks(SSL_CTX* context) {
  SSL_CTX_set_alpn_select_cb(context, StreamCallbacks::choose_protocol, nullptr);
  SSL_CTX_set_cert_cb(context, StreamCallbacks::on_certificate, nullptr);
}

}  // namespace corehttpd::tls
