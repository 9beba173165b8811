// What the master has taken up, as bytes for its workers.
#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "tls/policy.h"
#include "tls/small_file.h"

namespace corehttpd::tls {
namespace {

// Each item: its kind, its name in the store, and parts, the key and the chain or the answer.
// Lengths and counts are 32 bits of this machine's order: reader and writer are one program.
enum Kind : std::uint32_t { kCredential = 1, kStapling = 2 };

// So that a worker is not held up for long by many at once.
constexpr std::size_t kItemsMax = 32;

void put_number(std::string& out, std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out += text;
}

template <auto Encode, class T>
void put_der(std::string& out, const T* object) {
  unsigned char* der = nullptr;
  const int length = Encode(object, &der);
  put_text(out,
           {reinterpret_cast<const char*>(der), length > 0 ? static_cast<std::size_t>(length) : 0});
  OPENSSL_clear_free(der, length > 0 ? static_cast<std::size_t>(length) : 0);
}

void put(std::string& out, const std::string& name, const Credential& credential) {
  const int chain = sk_X509_num(credential.chain.get());
  put_number(out, kCredential);
  put_text(out, name);
  put_number(out, static_cast<std::size_t>(chain) + 2);
  put_der<i2d_PrivateKey>(out, credential.key.get());
  put_der<i2d_X509>(out, credential.certificate.get());
  for (int i = 0; i < chain; ++i) put_der<i2d_X509>(out, sk_X509_value(credential.chain.get(), i));
}

void put(std::string& out, const std::string& name, const Policy& policy) {
  put_number(out, kStapling);
  put_text(out, name);
  put_number(out, 1);
  put_text(out, policy.stapling);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }
  bool ok() const { return ok_; }
  std::size_t number() {
    std::uint32_t value = 0;
    if (const std::string_view bytes = take(sizeof(value)); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  std::string_view text() { return take(number()); }

 private:
  std::string_view take(std::size_t length) {
    ok_ = ok_ && length <= rest_.size();
    if (!ok_) return {};
    const std::string_view out = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return out;
  }
  std::string_view rest_;
  bool ok_ = true;
};

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

CertificatePtr read_certificate(std::string_view der) {
  const unsigned char* begin = bytes_of(der);
  return CertificatePtr(d2i_X509(nullptr, &begin, static_cast<long>(der.size())));
}

bool read_credential(Reader& reader, Credential& into) {
  const std::size_t count = reader.number();
  const std::string_view key = reader.text();
  const unsigned char* begin = bytes_of(key);
  Credential fresh;
  fresh.key.reset(d2i_AutoPrivateKey(nullptr, &begin, static_cast<long>(key.size())));
  fresh.certificate = read_certificate(reader.text());
  fresh.chain.reset(sk_X509_new_null());
  bool good = fresh.key != nullptr && fresh.certificate != nullptr && fresh.chain != nullptr;
  for (std::size_t i = 2; i < count && good; ++i) {
    CertificatePtr next = read_certificate(reader.text());
    good = next != nullptr && sk_X509_push(fresh.chain.get(), next.get()) > 0;
    if (good) static_cast<void>(next.release());
  }
  if (!good || !reader.ok()) return false;
  // Handshakes under way hold what they were given.
  into.key = std::move(fresh.key);
  into.certificate = std::move(fresh.certificate);
  into.chain = std::move(fresh.chain);
  into.slow = is_slow(into.key.get());
  into.reason.clear();
  into.key_reason.clear();
  return true;
}

}  // namespace

std::uint64_t Store::pack(std::uint64_t after, std::string& into) const {
  struct Item {
    std::uint64_t version;
    const std::string* name;
    const Credential* credential;
    const Policy* policy;
  };
  std::vector<Item> items;
  for (const auto& [name, one] : data_->credentials)
    if (one->version > after) items.push_back({one->version, &name, one.get(), nullptr});
  for (const auto& [name, one] : data_->policies)
    if (one->version > after) items.push_back({one->version, &name, nullptr, one.get()});
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.version < b.version; });
  if (items.size() > kItemsMax) items.resize(kItemsMax);
  for (const Item& item : items) {
    if (item.credential != nullptr) {
      put(into, *item.name, *item.credential);
    } else {
      put(into, *item.name, *item.policy);
    }
    after = item.version;
  }
  return after;
}

bool Store::unpack(std::string_view bytes) {
  Reader reader(bytes);
  bool good = true;
  while (good && !reader.at_end()) {
    const std::size_t kind = reader.number();
    const std::string name(reader.text());
    if (kind == kCredential) {
      // One that nobody has known yet is known only when it is whole.
      const auto known = data_->credentials.find(name);
      auto fresh = std::make_unique<Credential>();
      Credential& into = known == data_->credentials.end() ? *fresh : *known->second;
      good = read_credential(reader, into);
      if (good && &into == fresh.get()) data_->credentials.emplace(name, std::move(fresh));
    } else if (const auto found = data_->policies.find(name);
               kind == kStapling && found != data_->policies.end()) {
      good = reader.number() == 1;
      const std::scoped_lock lock(found->second->stapling_mutex);
      found->second->stapling = reader.text();
    } else {
      good = false;
    }
    good = good && reader.ok();
  }
  ERR_clear_error();
  judge_sites();
  return good;
}

}  // namespace corehttpd::tls
