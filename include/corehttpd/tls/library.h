// Which TLS library this is.
#pragma once

namespace corehttpd::tls {

// "OpenSSL 3.0.17 1 Jul 2025": of the headers that the binary was built with; empty when there were
// none.
const char* library_at_build();

}  // namespace corehttpd::tls
