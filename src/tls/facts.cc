// What nginx's $ssl_ variables say of a connection.
#include <fmt/format.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "corehttpd/tls/stream.h"
#include "tls/openssl.h"

namespace corehttpd::tls {
namespace {

using Value = std::optional<std::string_view>;

std::string hex(const unsigned char* bytes, std::size_t length) {
  std::string out;
  for (std::size_t i = 0; i < length; ++i) out += fmt::format("{:02x}", bytes[i]);
  return out;
}

std::string from_bio(const BioPtr& bio) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

BioPtr memory() { return BioPtr(BIO_new(BIO_s_mem())); }

// Names of what a client offers, joined by colons; what the library does not know as a number.
std::string offered_ciphers(SSL* ssl) {
  const unsigned char* raw = nullptr;
  const std::size_t length = SSL_get0_raw_cipherlist(ssl, &raw);
  std::string out;
  for (std::size_t i = 0; i + 1 < length; i += 2) {
    if (!out.empty()) out += ':';
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, raw + i);
    out += cipher != nullptr ? SSL_CIPHER_get_name(cipher)
                             : fmt::format("0x{:02x}{:02x}", raw[i], raw[i + 1]);
  }
  return out;
}

std::string group_name(SSL* ssl, int group) {
  if ((group & TLSEXT_nid_unknown) == 0) {
    const char* name = OBJ_nid2sn(group);
    return name == nullptr ? std::string() : name;
  }
  const char* name = SSL_group_to_name(ssl, group);
  return name != nullptr ? std::string(name) : fmt::format("0x{:04x}", group & 0xffff);
}

std::string offered_groups(SSL* ssl) {
  const int count = static_cast<int>(SSL_get1_groups(ssl, nullptr));
  std::string out;
  std::string groups(static_cast<std::size_t>(std::max(count, 0)) * sizeof(int), '\0');
  auto* numbers = reinterpret_cast<int*>(groups.data());
  SSL_get1_groups(ssl, numbers);
  for (int i = 0; i < count; ++i) {
    if (i != 0) out += ':';
    out += group_name(ssl, numbers[i]);
  }
  return out;
}

std::string pem(X509* certificate) {
  const BioPtr bio = memory();
  PEM_write_bio_X509(bio.get(), certificate);
  std::string out = from_bio(bio);
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// As nginx's $ssl_client_cert: lines but the first begin with a tab.
std::string tabbed(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += '\t';
  }
  return out;
}

std::string url_encoded(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string distinguished_name(const X509_NAME* name, bool legacy) {
  if (legacy) {
    char* text = X509_NAME_oneline(name, nullptr, 0);
    std::string out = text == nullptr ? "" : text;
    OPENSSL_free(text);
    return out;
  }
  const BioPtr bio = memory();
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  return from_bio(bio);
}

std::string time_text(const ASN1_TIME* time) {
  const BioPtr bio = memory();
  ASN1_TIME_print(bio.get(), time);
  return from_bio(bio);
}

std::string days_left(const ASN1_TIME* end) {
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, end) != 1 || days < 0 || seconds < 0) return "0";
  return std::to_string(days);
}

std::string serial(const X509* certificate) {
  const BioPtr bio = memory();
  i2a_ASN1_INTEGER(bio.get(), X509_get0_serialNumber(certificate));
  return from_bio(bio);
}

std::string fingerprint(const X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (X509_digest(certificate, EVP_sha1(), digest, &length) != 1) return {};
  return hex(digest, length);
}

Value of_certificate(std::string_view name, X509* certificate, Arena& arena) {
  if (name == "raw_cert") return arena.copy(pem(certificate));
  if (name == "cert") return arena.copy(tabbed(pem(certificate)));
  if (name == "escaped_cert") return arena.copy(url_encoded(pem(certificate)));
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const X509_NAME* issuer = X509_get_issuer_name(certificate);
  if (name == "s_dn") return arena.copy(distinguished_name(subject, false));
  if (name == "i_dn") return arena.copy(distinguished_name(issuer, false));
  if (name == "s_dn_legacy") return arena.copy(distinguished_name(subject, true));
  if (name == "i_dn_legacy") return arena.copy(distinguished_name(issuer, true));
  if (name == "serial") return arena.copy(serial(certificate));
  if (name == "fingerprint") return arena.copy(fingerprint(certificate));
  if (name == "v_start") return arena.copy(time_text(X509_get0_notBefore(certificate)));
  if (name == "v_end") return arena.copy(time_text(X509_get0_notAfter(certificate)));
  if (name == "v_remain") return arena.copy(days_left(X509_get0_notAfter(certificate)));
  return std::nullopt;
}

Value unless_empty(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace

Stream::ClientCertificate Stream::client_certificate() const {
  const CertificatePtr shown(SSL_get1_peer_certificate(ssl_));
  if (shown == nullptr) return ClientCertificate::kNone;
  const long result = SSL_get_verify_result(ssl_);
  if (result == X509_V_OK) return ClientCertificate::kGood;
  const bool any = policy_->settings->verify == VerifyClient::kOptionalNoCa;
  // Signed by whomever: the chain does not lead to an authority that is known here.
  switch (result) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_CERT_UNTRUSTED:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return any ? ClientCertificate::kGood : ClientCertificate::kBad;
    default:
      return ClientCertificate::kBad;
  }
}

const char* Stream::client_certificate_problem() const {
  return X509_verify_cert_error_string(SSL_get_verify_result(ssl_));
}

Value Stream::fact(std::string_view name, Arena& arena) const {
  if (name == "ssl_protocol") return std::string_view(SSL_get_version(ssl_));
  if (name == "ssl_cipher") return std::string_view(SSL_get_cipher_name(ssl_));
  if (name == "ssl_ciphers") return unless_empty(arena.copy(offered_ciphers(ssl_)));
  if (name == "ssl_curve") {
    const int group = static_cast<int>(SSL_get_negotiated_group(ssl_));
    return group == NID_undef ? Value() : unless_empty(arena.copy(group_name(ssl_, group)));
  }
  if (name == "ssl_curves") return unless_empty(arena.copy(offered_groups(ssl_)));
  if (name == "ssl_server_name") return unless_empty(server_name_);
  if (name == "ssl_alpn_protocol") return unless_empty(alpn_);
  if (name == "ssl_session_reused") return SSL_session_reused(ssl_) == 1 ? "r" : ".";
  if (name == "ssl_early_data") return early() ? Value("1") : Value();
  if (name == "ssl_session_id") {
    const SSL_SESSION* session = SSL_get0_session(ssl_);
    unsigned length = 0;
    const unsigned char* id = session == nullptr ? nullptr : SSL_SESSION_get_id(session, &length);
    return unless_empty(arena.copy(hex(id, length)));
  }
  constexpr std::string_view kClient = "ssl_client_";
  if (!name.starts_with(kClient)) return std::nullopt;
  const CertificatePtr certificate(SSL_get1_peer_certificate(ssl_));
  name.remove_prefix(kClient.size());
  if (name == "verify") {
    if (certificate == nullptr) return "NONE";
    const long result = SSL_get_verify_result(ssl_);
    if (result == X509_V_OK) return "SUCCESS";
    return arena.copy(fmt::format("FAILED:{}", X509_verify_cert_error_string(result)));
  }
  return certificate == nullptr ? Value() : of_certificate(name, certificate.get(), arena);
}

}  // namespace corehttpd::tls
