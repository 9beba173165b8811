// The library's objects, owned; and its errors, told.
#pragma once

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace corehttpd::tls {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using OcspPtr = std::unique_ptr<OCSP_RESPONSE, Freed<OCSP_RESPONSE_free>>;
using SslPtr = std::unique_ptr<SSL, Freed<SSL_free>>;
using ConfPtr = std::unique_ptr<SSL_CONF_CTX, Freed<SSL_CONF_CTX_free>>;

struct FreeChain {
  void operator()(STACK_OF(X509) * chain) const { sk_X509_pop_free(chain, X509_free); }
};
using ChainPtr = std::unique_ptr<STACK_OF(X509), FreeChain>;

// The oldest error of this thread's queue, "error:0A00010B:SSL routines::wrong version number", or
// fallback; empties the queue.
std::string take_error(const char* fallback = "unknown error");
// Of the same error: its reason (ERR_GET_REASON), 0 when there is none. Leaves the queue.
int peek_reason();
// For SSL_get_error(), which takes any error of the queue for the call's own. Who meets an error
// empties the queue, so mostly there is none, and looking costs a fraction of clearing.
void expect_no_errors();

}  // namespace corehttpd::tls
