// What the library asks while it shakes hands.
#pragma once

#include "tls/openssl.h"

namespace corehttpd::tls {

// Of the context where connections begin: names, tickets.
void install_base_callbacks(SSL_CTX* context);
// Of the same: caches of sessions.
void install_session_callbacks(SSL_CTX* context);
// Of every context: protocols above TLS, times of sessions.
void install_callbacks(SSL_CTX* context);

}  // namespace corehttpd::tls
