// What the TLS sites of a configuration serve with: certificates and keys in memory, one library
// context per policy. Made by the master when the configuration is compiled, an object of it.
// Workers inherit the keys by fork and never open their files. The master looks at the files again
// and again; what has changed and is good takes the place of what was there, in its own store and,
// handed over as bytes, in those of the workers that are running.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/conf/sites.h"
#include "corehttpd/tls/settings.h"
#include "corehttpd/tls/tickets.h"

struct ssl_ctx_st;
struct ssl_st;

namespace corehttpd::tls {

class ReplayGuard;
class SessionCache;
struct Policy;
struct Credential;

// A key of tickets from a file.
struct NamedTicketKey {
  TicketKey key;
  bool small = false;  // AES-128, HMAC by 16 bytes: a file of 48 bytes.
};

// Certificate and key whose paths have variables.
struct CredentialPattern {
  std::string certificate, key, passwords;
  std::string path() const {
    return certificate.find('$') != std::string::npos ? certificate : key;
  }
};

// A site as a handshake sees it.
struct SitePolicy {
  const Settings* settings = nullptr;
  const conf::Site* site = nullptr;
  const Policy* policy = nullptr;              // Shared by sites with the same settings.
  std::vector<const Credential*> credentials;  // Certificates with their chains and keys.
  std::vector<const CredentialPattern*> patterns;
  // What a session is bound to: resumed elsewhere it counts as none (session id context).
  std::array<unsigned char, 32> session_context{};
  // Of ssl_session_ticket_key: the first encrypts, all decrypt; none: the server's own do.
  std::vector<NamedTicketKey> ticket_keys;
  SessionCache* session_cache = nullptr;  // Of the site's zone; nullptr: none is kept.
  // Other files than certificates could not be used: only a reload mends that.
  bool faulty = false;
  // Its files could not be used: handshakes are refused.
  bool broken = false;
};

// A certificate as an operator wants to know of it.
struct CertificateFacts {
  std::string file;                // "data:…" when it is none.
  std::vector<std::string> sites;  // Their names.
  std::time_t expires = 0;         // 0: there is none that can be used.
};

class Store {
 public:
  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // nullptr: the site has neither certificates nor ssl_reject_handshake; those of its address's
  // default server serve it.
  const SitePolicy* find(const Settings& settings) const;
  // The keys of tickets, which outlive the configuration; without them no tickets are made.
  void use(TicketKeys& keys);
  // Without it no early data is taken.
  void use(ReplayGuard& guard) { replay_guard_ = &guard; }
  ReplayGuard* replay_guard() const { return replay_guard_; }
  // Some site takes early data.
  bool early_data() const { return early_data_; }
  TicketKeys* ticket_keys() const { return ticket_keys_; }
  // Memory that ssl_session_cache asks for, by name, and the cache made in it.
  const std::map<std::string, std::uint64_t>& zones() const { return zones_; }
  void use(const std::string& zone, SessionCache& cache);
  bool empty() const { return sites_.empty(); }
  // What the pattern leads to for a name that a client sent; nullptr: nothing that can be used.
  const Credential* find(const CredentialPattern& pattern, std::string_view name) const;
  // Where every connection begins, until its site is known.
  ssl_ctx_st* base() const;

  // --- In the master.
  // Looks at all files. Those that have changed and are good, chain and key together, count from
  // now on, and sites that were degraded for want of them are mended in sites; of others the log
  // says that what was there before goes on. What paths with variables lead to is looked for, too.
  static constexpr Milliseconds kLookAgain = 100;
  struct Look {
    bool unsettled = false;  // Something is under way, ask again within kLookAgain.
    bool folders = false;    // They may be others now.
  };
  Look take_up_changes(Milliseconds now_ms, conf::Sites& sites);
  // Where changes show.
  std::vector<std::string> folders() const;
  // Grows with each thing that was taken up.
  std::uint64_t version() const;
  // What was taken up after that version, or the first part of it, as bytes that hold keys; yields
  // the version that whoever unpacks them then has.
  std::uint64_t pack(std::uint64_t after, std::string& into) const;
  // Logs which certificates have expired (error) or are about to (warn): those that were not told
  // of, and once a day again. now_s: the wall clock.
  void announce_expiry(std::time_t now_s, Milliseconds now_ms);
  // Sorted by expiry.
  std::vector<CertificateFacts> certificates() const;

  // --- In a worker: what pack() made. False: it is nothing of the kind.
  bool unpack(std::string_view bytes);

 private:
  friend class StoreBuilder;
  struct Data;
  bool renew(Credential& credential);
  bool renew(Policy& policy);
  void judge_sites();
  bool look_for_names();
  std::unique_ptr<Data> data_;
  std::unordered_map<const Settings*, SitePolicy> sites_;
  std::map<std::string, std::uint64_t> zones_;
  TicketKeys* ticket_keys_ = nullptr;
  ReplayGuard* replay_guard_ = nullptr;
  bool early_data_ = false;
};

}  // namespace corehttpd::tls
