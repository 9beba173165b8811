#include "corehttpd/tls/library.h"

#if __has_include(<openssl/opensslv.h>)
#include <openssl/opensslv.h>
#endif

namespace corehttpd::tls {

const char* library_at_build() {
#ifdef OPENSSL_VERSION_TEXT
  return OPENSSL_VERSION_TEXT;
#else
  return "";
#endif
}

}  // namespace corehttpd::tls
