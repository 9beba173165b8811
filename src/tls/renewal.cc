// The master's care for certificates: taken up when their files change, and told of before they
// expire.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "corehttpd/base/log.h"
#include "tls/path_pattern.h"
#include "tls/policy.h"
#include "tls/store_builder.h"

namespace corehttpd::tls {
namespace {

constexpr std::int64_t kDay = 86'400;

std::time_t to_time(const ASN1_TIME* time) {
  tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? ::timegm(&parts) : 0;
}

std::time_t expiry_of(const Credential& credential) {
  if (!credential.usable()) return 0;
  return to_time(X509_get0_notAfter(credential.certificate.get()));
}

std::string date(std::time_t at) {
  tm parts{};
  ::gmtime_r(&at, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", parts);
}

// "9 days", "30 hours".
std::string span(std::int64_t seconds) {
  constexpr std::int64_t kHour = 3600;
  if (seconds >= 3 * kDay) return fmt::format("{} days", seconds / kDay);
  if (seconds >= 2 * kHour) return fmt::format("{} hours", seconds / kHour);
  return fmt::format("{} minutes", seconds / 60);
}

// How much it matters what a certificate's dates are.
enum Announcement : int { kNothing, kNotYetGood, kExpiresSoon, kExpired };

// Whoever renews does so when a third of a certificate's life is left, or a half of the shortest
// ones': later than a fifth nobody seems to. For those that live for a year two weeks are plenty.
Announcement judge(std::time_t begin, std::time_t end, std::time_t now) {
  constexpr std::int64_t kSoonMax = 14 * kDay;
  if (now >= end) return kExpired;
  if (end - now <= std::min<std::int64_t>((end - begin) / 5, kSoonMax)) return kExpiresSoon;
  return now < begin ? kNotYetGood : kNothing;
}

bool same_certificates(const Credential& a, const Credential& b) {
  if (X509_cmp(a.certificate.get(), b.certificate.get()) != 0) return false;
  const int count = sk_X509_num(a.chain.get());
  if (count != sk_X509_num(b.chain.get())) return false;
  for (int i = 0; i < count; ++i) {
    if (X509_cmp(sk_X509_value(a.chain.get(), i), sk_X509_value(b.chain.get(), i)) != 0)
      return false;
  }
  return true;
}

}  // namespace

void Store::judge_sites() {
  for (auto& [settings, site] : sites_) {
    site.broken = site.faulty || std::any_of(site.credentials.begin(), site.credentials.end(),
                                             [](const Credential* c) { return !c->usable(); });
  }
}

// Names that have come since; they are read when their files are quiet. Those that have gone are
// kept until a reload.
bool Store::look_for_names() {
  bool any = false;
  for (const auto& [key, pattern] : data_->patterns) {
    for (const std::string& name : list_names(pattern->path())) {
      const std::string source = expand_pattern(pattern->certificate, name);
      const std::string key_source = expand_pattern(pattern->key, name);
      auto& known = data_->credentials[credential_key(source, key_source, pattern->passwords)];
      if (known != nullptr) continue;
      known = make_credential(source, key_source, pattern->passwords);
      known->name = name;
      known->reason = "it has not been read yet";
      any = true;
    }
  }
  return any;
}

Store::Look Store::take_up_changes(Milliseconds now_ms, conf::Sites& sites) {
  bool unsettled = false;
  bool taken = false;
  const bool more = look_for_names();
  const auto look = [&](auto& thing) {
    switch (thing.files.look(now_ms)) {
      case WatchedFiles::State::kSame:
        return;
      case WatchedFiles::State::kUnsettled:
        unsettled = true;
        return;
      case WatchedFiles::State::kChanged:
        taken |= renew(thing);
        unsettled = true;
        return;
      case WatchedFiles::State::kFailed:
        log(nullptr, LogLevel::kError, "{}, what was there before goes on",
            thing.files.take_problem());
        return;
    }
  };
  for (auto& [name, credential] : data_->credentials) look(*credential);
  for (auto& [name, policy] : data_->policies) look(*policy);
  if (!taken) return {unsettled, more};
  judge_sites();
  for (const auto& [settings, site] : sites_) {
    if (!site.broken) sites.mend(*site.site->scope, conf::SiteFault::Kind::kCertificate);
  }
  return {unsettled, true};
}

// The old one stays until the new one is known to be good.
bool Store::renew(Credential& credential) {
  Credential fresh;
  fresh.source = credential.source;
  fresh.key_source = credential.key_source;
  fresh.password_file = credential.password_file;
  credential.files.note();
  PasswordFiles passwords;
  load_credential(fresh, passwords);
  if (!fresh.usable()) {
    const bool chain = !fresh.reason.empty();
    credential.files.set_problem(
        fmt::format("certificate{} \"{}\" has changed but cannot be used: {}", chain ? "" : " key",
                    shown_source(chain ? fresh.source : fresh.key_source),
                    chain ? fresh.reason : fresh.key_reason));
    return false;
  }
  if (credential.usable() && same_certificates(fresh, credential) &&
      EVP_PKEY_eq(fresh.key.get(), credential.key.get()) == 1)
    return false;
  credential.certificate = std::move(fresh.certificate);
  credential.chain = std::move(fresh.chain);
  credential.key = std::move(fresh.key);
  credential.slow = fresh.slow;
  credential.reason.clear();
  credential.key_reason.clear();
  credential.version = ++data_->version;
  credential.announced = kNothing;
  log(nullptr, LogLevel::kNotice, "certificate \"{}\" has changed and is taken up, good until {}",
      shown_source(credential.source), date(expiry_of(credential)));
  return true;
}

bool Store::renew(Policy& policy) {
  const std::string before = policy.stapling;
  if (std::string reason = load_stapling(policy); !reason.empty()) {
    policy.files.set_problem(std::move(reason));
    return false;
  }
  if (policy.stapling == before) return false;
  policy.version = ++data_->version;
  log(nullptr, LogLevel::kNotice, "\"{}\" has changed and is taken up", policy.stapling_source);
  return true;
}

std::vector<std::string> Store::folders() const {
  std::vector<std::string> out;
  for (const auto& [name, credential] : data_->credentials) credential->files.list_folders(out);
  for (const auto& [name, policy] : data_->policies) policy->files.list_folders(out);
  for (const auto& [key, pattern] : data_->patterns) out.push_back(pattern_folder(pattern->path()));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::uint64_t Store::version() const { return data_->version; }

std::vector<CertificateFacts> Store::certificates() const {
  std::vector<CertificateFacts> out;
  std::unordered_map<const Credential*, std::size_t> places;
  for (const auto& [settings, site] : sites_) {
    for (const Credential* one : site.credentials) {
      const auto [place, is_new] = places.try_emplace(one, out.size());
      if (is_new) out.push_back({std::string(shown_source(one->source)), {}, expiry_of(*one)});
      out[place->second].sites.emplace_back(site.site->name);
    }
  }
  for (const auto& [key, one] : data_->credentials) {
    if (!places.contains(one.get())) out.push_back({one->source, {one->name}, expiry_of(*one)});
  }
  for (CertificateFacts& one : out) std::sort(one.sites.begin(), one.sites.end());
  std::sort(out.begin(), out.end(), [](const CertificateFacts& a, const CertificateFacts& b) {
    return std::tie(a.expires, a.file) < std::tie(b.expires, b.file);
  });
  return out;
}

void Store::announce_expiry(std::time_t now_s, Milliseconds now_ms) {
  std::unordered_map<const Credential*, std::pair<std::string_view, std::size_t>> sites;
  for (const auto& [settings, site] : sites_) {
    for (const Credential* one : site.credentials) {
      auto& [name, count] = sites[one];
      // The first in the alphabet, so that the line is the same each day.
      if (count++ == 0 || site.site->name < name) name = site.site->name;
    }
  }
  for (auto& [key, credential] : data_->credentials) {
    if (!credential->usable()) continue;
    const std::time_t begin = to_time(X509_get0_notBefore(credential->certificate.get()));
    const std::time_t end = expiry_of(*credential);
    const int level = judge(begin, end, now_s);
    const bool told =
        credential->announced == level && now_ms - credential->announced_ms < kDay * 1000;
    credential->announced = level;
    if (level == kNothing || told) continue;
    credential->announced_ms = now_ms;
    const auto& [site, count] = sites[credential.get()];
    const std::string_view name = count == 0 ? credential->name : site;
    const std::string whose = count > 1 ? fmt::format("\"{}\" and {} more", name, count - 1)
                                        : fmt::format("\"{}\"", name);
    const std::string_view file = shown_source(credential->source);
    if (level == kExpired) {
      log(nullptr, LogLevel::kError, "certificate \"{}\" of site {} has expired: {}", file, whose,
          date(end));
    } else if (level == kExpiresSoon) {
      log(nullptr, LogLevel::kWarn, "certificate \"{}\" of site {} expires in {}: {}", file, whose,
          span(end - now_s), date(end));
    } else {
      log(nullptr, LogLevel::kWarn, "certificate \"{}\" of site {} is not good before {}", file,
          whose, date(begin));
    }
  }
}

}  // namespace corehttpd::tls
