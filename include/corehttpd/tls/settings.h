// The ssl_* directives of a server block, and the check of files for being certificates and keys at
// all. Read by the master when a configuration is compiled, never by a worker.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::tls {

// A file as named by a directive.
struct NamedFile {
  // Absolute, variables in it or not; as written when it is no file ("data:…").
  std::string_view path;
  conf::Position at;
  std::uint32_t width = 1;
  NamedFile* next = nullptr;  // The next of the same list.
};

// ssl_conf_command: a name and a value of OpenSSL's SSL_CONF_cmd(3).
struct ConfCommand {
  std::string_view name, value;
  conf::Position at;
  ConfCommand* next = nullptr;
};

enum Protocols : std::uint32_t { kTls12 = 1, kTls13 = 2 };

enum class VerifyClient : std::uint8_t {
  kOff,
  kOn,
  kOptional,
  kOptionalNoCa,  // Asked for, and whoever signed it will do: the site looks itself.
};

enum class SessionCacheKind : std::uint8_t {
  kNone,    // nginx's default: clients are told that they may resume, but nothing is kept.
  kOff,     // Clients are told that they may not.
  kShared,  // In memory that all workers share.
};

// Of a server block, in part inherited from http. Certificates and keys belong together in pairs.
struct Settings {
  NamedFile* certificates = nullptr;
  NamedFile* keys = nullptr;
  NamedFile* passwords = nullptr;  // One file; a passphrase per line.
  std::uint32_t protocols = kTls12 | kTls13;
  std::string_view ciphers;
  bool prefer_server_ciphers = false;
  std::string_view curves;  // "auto": the library's own.
  NamedFile* dhparam = nullptr;
  ConfCommand* commands = nullptr;
  std::uint64_t buffer_size = 16 * 1024;  // The largest record's payload.
  // Small records after a pause, so that the first bytes can be used before a window's worth has
  // come.
  bool dynamic_records = true;
  Milliseconds dynamic_timeout = 1000;
  std::uint64_t dynamic_threshold = 4;
  std::uint64_t dynamic_size_low = 1369;
  std::uint64_t dynamic_size_high = 4229;
  VerifyClient verify = VerifyClient::kOff;
  std::uint64_t verify_depth = 1;
  NamedFile* client_ca = nullptr;
  NamedFile* trusted = nullptr;
  NamedFile* crl = nullptr;
  bool reject_handshake = false;
  SessionCacheKind session_cache = SessionCacheKind::kNone;
  std::string_view session_zone;
  std::uint64_t session_zone_bytes = 0;
  Milliseconds session_timeout = 300'000;
  bool session_tickets = true;
  NamedFile* ticket_keys = nullptr;
  NamedFile* stapling_file = nullptr;
  bool early_data = false;
};

// Rows of all directives above. Its finish() comes after route's: it makes the Store (store.h). A
// TLS site without certificate is an error; one whose files cannot be used is degraded.
const conf::Module& module();

enum class PemKind : std::uint8_t { kCertificate, kPrivateKey };
// Why the file cannot be used; empty: it holds what it should, in PEM (RFC 7468): at least one
// block of the kind, each block closed and of valid base64 that begins like DER.
std::string check_pem_file(std::string_view path, PemKind kind);
// The same of a text.
std::string check_pem(std::string_view text, PemKind kind);

}  // namespace corehttpd::tls
