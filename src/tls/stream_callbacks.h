// The library's calls, led to the Stream that they are about.
#pragma once

#include "corehttpd/tls/stream.h"
#include "tls/openssl.h"

namespace corehttpd::tls {

struct StreamCallbacks {
  static Stream& of(const SSL* ssl) { return *static_cast<Stream*>(SSL_get_app_data(ssl)); }

  static int bio_read(BIO* bio, char* into, std::size_t length, std::size_t* got);
  static int bio_write(BIO* bio, const char* from, std::size_t length, std::size_t* put);
  static int client_hello(SSL* ssl, int* alert, void*);
  static int choose_protocol(SSL* ssl, const unsigned char** out, unsigned char* out_length,
                             const unsigned char* in, unsigned in_length, void*);
  static int on_certificate(SSL* ssl, void*);
  static int allow_early_data(SSL* ssl, void*);
  static int new_session(SSL* ssl, SSL_SESSION* session);
  static SSL_SESSION* find_session(SSL* ssl, const unsigned char* id, int length, int* copy);
  static int ticket_key(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                        EVP_MAC_CTX* mac, int encrypt);
};

}  // namespace corehttpd::tls
