#include "tls/callbacks.h"

#include <openssl/core_names.h>
#include <openssl/rand.h>

#include <cstring>
#include <ctime>

#include "corehttpd/tls/tickets.h"
#include "tls/stream_callbacks.h"

namespace corehttpd::tls {
namespace {

constexpr unsigned char kHttp2AndHttp1[] = "\x02h2\x08http/1.1";
constexpr unsigned char kHttp1[] = "\x08http/1.1";

bool set_up_cipher(EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, const TicketKey& key,
                   const unsigned char* iv, bool encrypt) {
  char digest[] = "SHA256";
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY,
                                        const_cast<unsigned char*>(key.mac.data()),
                                        key.mac.size()),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end(),
  };
  if (EVP_MAC_CTX_set_params(mac, parameters) != 1) return false;
  static const EVP_CIPHER* const kCipher = EVP_aes_256_cbc();
  return EVP_CipherInit_ex(cipher, kCipher, nullptr, key.aes.data(), iv, encrypt ? 1 : 0) == 1;
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
  const auto length = static_cast<unsigned>(http2 ? sizeof(kHttp2AndHttp1) - 1 : sizeof(kHttp1) - 1);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_length, ours, length, in, in_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Not asked on resumption: a resumed session keeps the time that it was given.
int StreamCallbacks::on_certificate(SSL* ssl, void*) {
  const Stream& stream = of(ssl);
  if (stream.policy_ == nullptr) return 1;
  if (SSL_SESSION* session = SSL_get_session(ssl))
    SSL_SESSION_set_timeout(session, static_cast<long>(stream.policy_->settings->session_timeout / 1000));
  return 1;
}

int StreamCallbacks::ticket_key(SSL* ssl, unsigned char* name, unsigned char* iv,
                                EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int encrypt) {
  TicketKeys* keys = of(ssl).store_.ticket_keys();
  if (keys == nullptr) return 0;
  constexpr int kIvBytes = 16;
  if (encrypt != 0) {
    TicketKey key = keys->current(std::time(nullptr));
    std::memcpy(name, key.name.data(), key.name.size());
    const bool ok = RAND_bytes(iv, kIvBytes) == 1 && set_up_cipher(cipher, mac, key, iv, true);
    OPENSSL_cleanse(&key, sizeof(key));
    return ok ? 1 : -1;
  }
  auto found = keys->find({name, sizeof(TicketKey::name)});
  if (!found) return 0;
  const bool ok = set_up_cipher(cipher, mac, found->key, iv, false);
  OPENSSL_cleanse(&found->key, sizeof(found->key));
  if (!ok) return -1;
  // TLS 1.3 makes a new one anyway.
  return found->renew || SSL_version(ssl) == TLS1_3_VERSION ? 2 : 1;
}

void install_base_callbacks(SSL_CTX* context) {
  SSL_CTX_set_client_hello_cb(context, StreamCallbacks::client_hello, nullptr);
  SSL_CTX_set_tlsext_ticket_key_evp_cb(context, StreamCallbacks::ticket_key);
}

void install_callbacks(SSL_CTX* context) {
  SSL_CTX_set_alpn_select_cb(context, StreamCallbacks::choose_protocol, nullptr);
  SSL_CTX_set_cert_cb(context, StreamCallbacks::on_certificate, nullptr);
}

}  // namespace corehttpd::tls
