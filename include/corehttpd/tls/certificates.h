// ssl_certificate and ssl_certificate_key: which files a TLS site has, and whether they can be what
// they should be. Read by the master when a configuration is compiled, never by a worker.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "corehttpd/conf/directive.h"

namespace corehttpd::tls {

// A file as named by a directive.
struct NamedFile {
  std::string_view path;  // Absolute; as written when it has variables or is no file ("data:…").
  conf::Position at;
  std::uint32_t width = 1;
  NamedFile* next = nullptr;  // The next of the same list.
};

// Of a server block, in part inherited from http. Certificates and keys belong together in pairs.
struct CertificateSettings {
  NamedFile* certificates = nullptr;
  NamedFile* keys = nullptr;
};

// Rows: ssl_certificate, ssl_certificate_key. Its finish() comes after route's: a TLS site without
// certificate is an error; one whose files cannot be used is degraded.
const conf::Module& certificates_module();

enum class PemKind : std::uint8_t { kCertificate, kPrivateKey };
// Why the file cannot be used; empty: it holds what it should, in PEM (RFC 7468): at least one
// block of the kind, each block closed and of valid base64 that begins like DER.
std::string check_pem_file(std::string_view path, PemKind kind);
// The same of a text.
std::string check_pem(std::string_view text, PemKind kind);

}  // namespace corehttpd::tls
