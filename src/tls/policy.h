// What stands behind the Store.
#pragma once

#include <cstdint>
#include <string>

#include "corehttpd/tls/store.h"
#include "tls/openssl.h"

namespace corehttpd::tls {

// The library's context of all sites whose settings, but for certificates, are the same.
struct Policy {
  ContextPtr context;
  std::string stapling;  // The OCSP answer, DER.
  std::string curves;    // Set on each connection, for the first context had none; empty: none.
  int protocol_min = 0;  // TLS1_2_VERSION…
  int protocol_max = 0;
};

// A certificate with its chain and key.
struct Credential {
  CertificatePtr certificate;
  ChainPtr chain;
  KeyPtr key;
};

// Makes the context of policy. What failed, as a whole message; empty: nothing. bad_file: the
// failure is one of a file, and so the site's alone.
std::string make_policy(const Settings& settings, Policy& policy, bool& bad_file);
// Where connections begin. caches: some site has a cache of sessions.
ContextPtr make_base_context(bool caches);

// Reads certificates and keys, named by files or given as text ("data:"). Yields what failed;
// empty: nothing.
std::string load_chain(std::string_view source, Credential& into);
// Of ssl_session_ticket_key; the same.
std::string load_ticket_key(std::string_view path, NamedTicketKey& into);
std::string load_key(std::string_view source, std::string_view password_file, Credential& into);

}  // namespace corehttpd::tls
