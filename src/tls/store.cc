#include "corehttpd/tls/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/tls/tickets.h"
#include "tls/path_pattern.h"
#include "tls/policy.h"
#include "tls/small_file.h"
#include "tls/store_builder.h"

namespace corehttpd::tls {

Store::Store() : data_(std::make_unique<Data>()) {}
Store::~Store() = default;

const SitePolicy* Store::find(const Settings& settings) const {
  const auto found = sites_.find(&settings);
  return found == sites_.end() ? nullptr : &found->second;
}

// Keys are kept for as long as the longest-lived tickets.
void Store::use(TicketKeys& keys) {
  Milliseconds longest = 0;
  for (const auto& [settings, site] : sites_)
    longest = std::max(longest, settings->session_timeout);
  keys.set_period(longest / 1000);
  ticket_keys_ = &keys;
}

void Store::use(const std::string& zone, SessionCache& cache) {
  for (auto& [settings, site] : sites_) {
    if (settings->session_cache == SessionCacheKind::kShared && settings->session_zone == zone)
      site.session_cache = &cache;
  }
}

const Credential* Store::find(const CredentialPattern& pattern, std::string_view name) const {
  if (!is_safe_name(name)) return nullptr;
  const auto found =
      data_->credentials.find(credential_key(expand_pattern(pattern.certificate, name),
                                             expand_pattern(pattern.key, name), pattern.passwords));
  return found == data_->credentials.end() || !found->second->usable() ? nullptr
                                                                       : found->second.get();
}

ssl_ctx_st* Store::base() const { return data_->base.get(); }

namespace {

std::string_view path_of(const NamedFile* file) {
  return file == nullptr ? std::string_view() : file->path;
}

// All that makes one context different from another.
std::string policy_key(const Settings& s) {
  std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", s.protocols,
                                s.ciphers, s.prefer_server_ciphers, s.curves, path_of(s.dhparam),
                                static_cast<int>(s.verify), s.verify_depth, path_of(s.client_ca),
                                path_of(s.trusted), path_of(s.crl), path_of(s.stapling_file));
  key += s.session_tickets ? "\nt" : "\n";
  key += s.early_data ? "e" : "";
  key += s.session_cache == SessionCacheKind::kShared ? "s" : "";
  for (const ConfCommand* one = s.commands; one != nullptr; one = one->next)
    key += fmt::format("\n{}\n{}", one->name, one->value);
  return key;
}

}  // namespace

class StoreBuilder {
 public:
  StoreBuilder(conf::Compiler& compiler, Store& store) : compiler_(compiler), store_(store) {}

  void run() {
    for (const conf::Site& site : compiler_.configuration().sites().all()) {
      if (site.tls_at.line != 0) add(site);
    }
    if (!store_.sites_.empty()) store_.data_->base = make_base_context(!store_.zones_.empty());
    store_.judge_sites();
    passed_.clear();
  }

 private:
  void add(const conf::Site& site) {
    const auto& settings = site.scope->view().get<Settings>();
    if (settings.certificates == nullptr && !settings.reject_handshake) {
      // As nginx: who comes after another on the same address is served with that one's.
      for (std::string_view address : site.addresses) {
        if (covered_.contains(address)) return;
      }
      return error(site.tls_at,
                   "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
                   "a site that listens with \"ssl\" needs ssl_certificate and ssl_certificate_key",
                   site.tls_width);
    }
    if (settings.verify != VerifyClient::kOff && settings.verify != VerifyClient::kOptionalNoCa &&
        settings.client_ca == nullptr && settings.trusted == nullptr) {
      return error(site.tls_at,
                   "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
                   "whose signature a client's certificate needs", site.tls_width);
    }
    covered_.insert(site.addresses.begin(), site.addresses.end());
    SitePolicy& made = store_.sites_[&settings];
    made.settings = &settings;
    made.site = &site;
    store_.early_data_ |= settings.early_data;
    use_policy(site, settings, made);
    const NamedFile* key = settings.keys;
    for (const NamedFile* one = settings.certificates; one != nullptr; one = one->next) {
      if (key == nullptr) {
        return error(
            one->at,
            fmt::format("no \"ssl_certificate_key\" is defined for certificate \"{}\"", one->path),
            "each ssl_certificate has its own ssl_certificate_key, in the same order", one->width);
      }
      use_credential(site, settings, *one, *key, made);
      key = key->next;
    }
    bind_sessions(settings, made);
    if (made.ticket_keys.empty()) use_ticket_keys(site, settings, made);
    if (settings.session_cache == SessionCacheKind::kShared) use_zone(site, settings);
  }

  void use_ticket_keys(const conf::Site& site, const Settings& settings, SitePolicy& made) {
    for (const NamedFile* one = settings.ticket_keys; one != nullptr; one = one->next) {
      const std::string reason = load_ticket_key(one->path, made.ticket_keys.emplace_back());
      if (reason.empty()) continue;
      made.faulty = true;
      degrade(site, one->at, fmt::format("cannot load ticket key \"{}\": {}", one->path, reason),
              one->width);
    }
  }

  void use_zone(const conf::Site& site, const Settings& settings) {
    const auto [known, is_new] =
        store_.zones_.try_emplace(std::string(settings.session_zone), settings.session_zone_bytes);
    if (known->second == settings.session_zone_bytes) return;
    error(site.tls_at,
          fmt::format("the size {} of shared memory zone \"{}\" conflicts with already declared "
                      "size {}",
                      settings.session_zone_bytes, settings.session_zone, known->second),
          "ssl_session_cache gives a zone the same size wherever it is named", site.tls_width);
  }

  void use_policy(const conf::Site& site, const Settings& settings, SitePolicy& made) {
    const std::string key = policy_key(settings);
    auto& policies = store_.data_->policies;
    auto& reason = passed_[key];
    if (const auto known = policies.find(key); known != policies.end()) {
      made.policy = known->second.get();
    } else {
      auto policy = std::make_unique<Policy>();
      bool bad_file = false;
      reason = make_policy(settings, *policy, bad_file);
      made.policy = policy.get();
      policies.emplace(key, std::move(policy));
      if (!reason.empty() && !bad_file) return error(site.tls_at, reason, {}, site.tls_width);
    }
    if (reason.empty()) return;
    made.faulty = true;
    degrade(site, site.tls_at, reason, site.tls_width);
  }

  // Sites share files; each pair is read once.
  void use_credential(const conf::Site& site, const Settings& settings, const NamedFile& file,
                      const NamedFile& key, SitePolicy& made) {
    if (is_pattern(file.path) || is_pattern(key.path))
      return use_pattern(site, settings, file, key, made);
    const std::string_view passwords = path_of(settings.passwords);
    auto& known = store_.data_->credentials[credential_key(file.path, key.path, passwords)];
    if (known == nullptr) {
      known = make_credential(file.path, key.path, passwords);
      load_credential(*known, passwords_);
    }
    made.credentials.push_back(known.get());
    if (!known->reason.empty()) {
      degrade(
          site, file.at,
          fmt::format("cannot load certificate \"{}\": {}", shown_source(file.path), known->reason),
          file.width);
    }
    if (!known->key_reason.empty()) {
      degrade(site, key.at,
              fmt::format("cannot load certificate key \"{}\": {}", shown_source(key.path),
                          known->key_reason),
              key.width);
    }
  }

  // What is there now is read now; a file that is no good is told of, and is out by itself.
  void use_pattern(const conf::Site& site, const Settings& settings, const NamedFile& file,
                   const NamedFile& key, SitePolicy& made) {
    for (const NamedFile* one : {&file, &key}) {
      const std::string problem = check_pattern(one->path);
      if (problem.empty()) continue;
      made.faulty = true;
      return degrade(site, one->at,
                     fmt::format("cannot load certificate \"{}\": {}", one->path, problem),
                     one->width);
    }
    const std::string passwords(path_of(settings.passwords));
    auto& pattern = store_.data_->patterns[credential_key(file.path, key.path, passwords)];
    if (pattern == nullptr) {
      pattern = std::make_unique<CredentialPattern>(
          CredentialPattern{std::string(file.path), std::string(key.path), passwords});
      store_.look_for_names();
      for (const std::string& name : list_names(pattern->path())) {
        const auto& known = store_.data_->credentials[credential_key(
            expand_pattern(file.path, name), expand_pattern(key.path, name), passwords)];
        if (known == nullptr) continue;  // It has come just now.
        Credential& one = *known;
        load_credential(one, passwords_);
        if (one.usable()) continue;
        const bool chain = !one.reason.empty();
        compiler_.diagnostics().add(
            conf::Severity::kWarning, chain ? file.at : key.at,
            fmt::format("cannot load certificate{} \"{}\": {}", chain ? "" : " key",
                        chain ? one.source : one.key_source, chain ? one.reason : one.key_reason),
            "handshakes for this name are refused until it is mended",
            chain ? file.width : key.width);
      }
    }
    made.patterns.push_back(pattern.get());
  }

  // The same certificates and the same demands on clients; other sites' sessions are not resumed,
  // else a ticket would carry a client past the demands. Files of authorities count by what is in
  // them, certificates by their names, so that renewal ends no session.
  void bind_sessions(const Settings& settings, SitePolicy& made) {
    std::string text =
        fmt::format("corehttpd\n{}\n{}", static_cast<int>(settings.verify), settings.verify_depth);
    if (settings.verify != VerifyClient::kOff) {
      for (const NamedFile* file : {settings.client_ca, settings.trusted, settings.crl}) {
        std::string content;
        if (file != nullptr) read_small_file(file->path, content);
        text += fmt::format("\n{}\n", content.size()) + content;
      }
    }
    for (const NamedFile* one = settings.certificates; one != nullptr; one = one->next)
      text += fmt::format("\n{}", one->path);
    unsigned length = 0;
    EVP_Digest(text.data(), text.size(), made.session_context.data(), &length, EVP_sha256(),
               nullptr);
  }

  void degrade(const conf::Site& site, const conf::Position& at, const std::string& reason,
               std::size_t width) {
    compiler_.degrade_site(*site.scope, conf::SiteFault::Kind::kCertificate, at, reason, width);
  }

  void error(const conf::Position& at, std::string message, std::string help, std::size_t width) {
    compiler_.diagnostics().add(conf::Severity::kError, at, std::move(message), std::move(help),
                                width);
  }

  conf::Compiler& compiler_;
  Store& store_;
  PasswordFiles passwords_;
  std::unordered_map<std::string, std::string> passed_;  // What failed of what was loaded.
  std::unordered_set<std::string_view> covered_;         // Addresses of sites with certificates.
};

void build_store(conf::Compiler& compiler) {
  StoreBuilder(compiler, compiler.object_or_make<Store>()).run();
}

}  // namespace corehttpd::tls
