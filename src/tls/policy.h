// What stands behind the Store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "corehttpd/tls/store.h"
#include "tls/openssl.h"
#include "tls/watched_files.h"

namespace corehttpd::tls {

// The library's context of all sites whose settings, but for certificates, are the same.
struct Policy {
  ContextPtr context;
  std::string stapling;       // The OCSP answer, DER.
  std::mutex stapling_mutex;  // Handshakes in Offload read what a renewal replaces.
  std::string curves;    // Set on each connection, for the first context had none; empty: none.
  int protocol_min = 0;  // TLS1_2_VERSION…
  int protocol_max = 0;
  std::string stapling_source;  // The master's: the answer's file.
  WatchedFiles files;
  std::uint64_t version = 0;  // As a credential's.
};

// A certificate with its chain and key.
struct Credential {
  CertificatePtr certificate;
  ChainPtr chain;
  KeyPtr key;
  bool slow = false;  // Signing takes long: handshakes run in Offload.
  // Why certificate or key cannot be used.
  std::string reason, key_reason;
  bool usable() const { return reason.empty() && key_reason.empty(); }

  // The master's: where it came from.
  std::string source, key_source, password_file;
  WatchedFiles files;
  std::uint64_t version = 0;  // Of the store, when it was taken up; 0: at the beginning.
  std::string name;           // Of a pattern: which server name led here.
  // What was last said of its expiry.
  int announced = 0;
  Milliseconds announced_ms = 0;
};

struct Store::Data {
  ContextPtr base;
  std::map<std::string, std::unique_ptr<Policy>> policies;
  std::map<std::string, std::unique_ptr<Credential>> credentials;
  std::map<std::string, std::unique_ptr<CredentialPattern>> patterns;
  std::uint64_t version = 0;
};

// Of ssl_password_file: each is read once while a configuration is compiled or changes are looked
// at, for a FIFO is written to once. Passphrases are overwritten at the end.
class PasswordFiles {
 public:
  PasswordFiles() = default;
  PasswordFiles(const PasswordFiles&) = delete;
  PasswordFiles& operator=(const PasswordFiles&) = delete;
  ~PasswordFiles();
  // What failed; empty: nothing. lines lives as long as this; path empty: none.
  std::string read(const std::string& path, const std::vector<std::string>*& lines);

 private:
  std::map<std::string, std::vector<std::string>> known_;
};

// Makes the context of policy. What failed, as a whole message; empty: nothing. bad_file: the
// failure is one of a file, and so the site's alone.
std::string make_policy(const Settings& settings, Policy& policy, bool& bad_file);
// A certificate's or key's own text is not shown.
std::string_view shown_source(std::string_view source);
// Where connections begin. caches: some site has a cache of sessions.
ContextPtr make_base_context(bool caches);

// The answer of ssl_stapling_file; what failed, as a whole message.
std::string load_stapling(Policy& policy);

// What credentials are known by in the store.
std::string credential_key(std::string_view source, std::string_view key_source,
                           std::string_view password_file);
// Not loaded yet.
std::unique_ptr<Credential> make_credential(std::string_view source, std::string_view key_source,
                                            std::string_view password_file);
bool is_slow(EVP_PKEY* key);
// Reads certificate, chain and key from where the credential says that they are.
void load_credential(Credential& credential, PasswordFiles& passwords);
// Reads certificates and keys, named by files or given as text ("data:"). Yields what failed;
// empty: nothing.
std::string load_chain(std::string_view source, Credential& into);
// Of ssl_session_ticket_key; the same.
std::string load_ticket_key(std::string_view path, NamedTicketKey& into);
std::string load_key(Credential& into, PasswordFiles& passwords);

}  // namespace corehttpd::tls
