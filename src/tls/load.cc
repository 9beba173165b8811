// Certificates and keys into memory.
#include <fmt/format.h>
#include <openssl/decoder.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "corehttpd/tls/settings.h"
#include "tls/policy.h"
#include "tls/small_file.h"
#include "tls/store_builder.h"

namespace corehttpd::tls {
namespace {

constexpr std::string_view kData = "data:";

// The text of a file or of the directive itself; what failed.
std::string read_source(std::string_view source, std::string& text) {
  if (source.starts_with(kData)) {
    text = source.substr(kData.size());
    return {};
  }
  if (!is_plain_path(source)) return "only files and \"data:\" are read";
  return read_small_file(source, text);
}

struct Passwords {
  const std::vector<std::string>& lines;
  std::size_t next = 0;
};

int give_password(char* into, int size, int, void* context) {
  auto& passwords = *static_cast<Passwords*>(context);
  if (passwords.next >= passwords.lines.size()) return -1;
  const std::string& line = passwords.lines[passwords.next];
  const int length = std::min(size, static_cast<int>(line.size()));
  std::memcpy(into, line.data(), static_cast<std::size_t>(length));
  return length;
}

BioPtr open_text(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// PEM_read_bio_PrivateKey() gathers the library's decoders anew for each key, which is nine tenths
// of its time with OpenSSL 3.0 and would be seconds for thousands of sites. Here they are kept, for
// text that begins with a key in clear. Empty: whatever it is, it is for the usual way.
KeyPtr decode_plain_key(const std::string& text) {
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  if (!first.starts_with("-----BEGIN ") || first.find("PRIVATE KEY-----") == first.npos) return {};
  static EVP_PKEY* decoded = nullptr;
  static OSSL_DECODER_CTX* const decoder = [] {
    OSSL_DECODER_CTX* made = OSSL_DECODER_CTX_new_for_pkey(&decoded, "PEM", nullptr, nullptr,
                                                           EVP_PKEY_KEYPAIR, nullptr, nullptr);
    const auto no_password = [](char*, int, int, void*) { return -1; };
    if (made != nullptr) OSSL_DECODER_CTX_set_pem_password_cb(made, no_password, nullptr);
    return made;
  }();
  if (decoder != nullptr) OSSL_DECODER_from_bio(decoder, open_text(text).get());
  ERR_clear_error();
  return KeyPtr(std::exchange(decoded, nullptr));
}

}  // namespace

std::string load_chain(std::string_view source, Credential& into) {
  std::string text;
  std::string reason = read_source(source, text);
  if (reason.empty()) reason = check_pem(text, PemKind::kCertificate);
  if (!reason.empty()) return reason;
  const BioPtr bio = open_text(text);
  into.certificate.reset(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
  if (into.certificate == nullptr) return "PEM_read_bio_X509_AUX() failed: " + take_error();
  into.chain.reset(sk_X509_new_null());
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    sk_X509_push(into.chain.get(), next);
  const bool at_end = peek_reason() == PEM_R_NO_START_LINE;
  if (!at_end) return "PEM_read_bio_X509() failed: " + take_error();
  ERR_clear_error();
  return {};
}

std::string credential_key(std::string_view source, std::string_view key_source,
                           std::string_view password_file) {
  return fmt::format("{}\n{}\n{}", source, key_source, password_file);
}

std::unique_ptr<Credential> make_credential(std::string_view source, std::string_view key_source,
                                            std::string_view password_file) {
  auto out = std::make_unique<Credential>();
  out->source = source;
  out->key_source = key_source;
  out->password_file = password_file;
  for (std::string_view path : {source, key_source, password_file})
    if (!path.empty() && is_plain_path(path)) out->files.add(path);
  return out;
}

bool is_slow(EVP_PKEY* key) {
  constexpr int kQuickBits = 2048;
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) > kQuickBits;
}

PasswordFiles::~PasswordFiles() {
  for (auto& [path, lines] : known_)
    for (std::string& line : lines) forget_text(line);
}

std::string PasswordFiles::read(const std::string& path, const std::vector<std::string>*& lines) {
  const auto [place, is_new] = known_.try_emplace(path);
  lines = &place->second;
  if (!is_new || path.empty()) return {};
  std::string text;
  if (std::string reason = read_small_file(path, text, true); !reason.empty())
    return fmt::format("its password file \"{}\": {}", path, reason);
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) place->second.emplace_back(line);
  }
  forget_text(text);
  return {};
}

std::string_view shown_source(std::string_view source) {
  return source.starts_with(kData) ? std::string_view("data:…") : source;
}

void load_credential(Credential& credential, PasswordFiles& passwords) {
  credential.files.note();
  credential.key_reason.clear();
  credential.reason = load_chain(credential.source, credential);
  if (credential.reason.empty()) {
    credential.key_reason = load_key(credential, passwords);
  } else if (is_plain_path(credential.key_source)) {
    credential.key_reason = check_pem_file(credential.key_source, PemKind::kPrivateKey);
  }
  credential.slow = credential.key != nullptr && is_slow(credential.key.get());
}

// As nginx reads them: 48 bytes are name, AES-128 key and HMAC key; 80 are name, HMAC key and
// AES-256 key.
std::string load_ticket_key(std::string_view path, NamedTicketKey& into) {
  std::string text;
  std::string reason = read_small_file(path, text);
  into.small = text.size() == 48;
  TicketKey& key = into.key;
  if (reason.empty() && text.size() != 48 && text.size() != 80)
    reason = "it must be 48 or 80 bytes";
  if (reason.empty()) {
    std::memcpy(key.name.data(), text.data(), 16);
    if (into.small) {
      std::memcpy(key.aes.data(), text.data() + 16, 16);
      std::memcpy(key.mac.data(), text.data() + 32, 16);
    } else {
      std::memcpy(key.mac.data(), text.data() + 16, 32);
      std::memcpy(key.aes.data(), text.data() + 48, 32);
    }
  }
  forget_text(text);
  return reason;
}

std::string load_key(Credential& into, PasswordFiles& password_files) {
  std::string text;
  std::string reason = read_source(into.key_source, text);
  if (reason.empty()) reason = check_pem(text, PemKind::kPrivateKey);
  if (!reason.empty()) {
    forget_text(text);
    return reason;
  }
  const std::vector<std::string>* lines = nullptr;
  reason = password_files.read(into.password_file, lines);
  Passwords passwords{*lines};
  into.key = decode_plain_key(text);
  while (into.key == nullptr) {
    const BioPtr bio = open_text(text);
    into.key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, give_password, &passwords));
    if (++passwords.next >= lines->size()) break;
  }
  forget_text(text);
  if (into.key == nullptr) {
    if (!reason.empty()) return reason;
    return "PEM_read_bio_PrivateKey() failed: " + take_error();
  }
  ERR_clear_error();
  if (X509_check_private_key(into.certificate.get(), into.key.get()) != 1)
    return "it does not belong to its certificate: " + take_error();
  return {};
}

}  // namespace corehttpd::tls
