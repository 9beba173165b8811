// What the TLS sites of a configuration serve with: certificates and keys in memory, one library
// context per policy. Made by the master when the configuration is compiled, an object of it;
// workers only read. They inherit the keys by fork and never open their files.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corehttpd/tls/settings.h"
#include "corehttpd/tls/tickets.h"

struct ssl_ctx_st;
struct ssl_st;

namespace corehttpd::tls {

class SessionCache;
struct Policy;
struct Credential;

// A key of tickets from a file.
struct NamedTicketKey {
  TicketKey key;
  bool small = false;  // AES-128, HMAC by 16 bytes: a file of 48 bytes.
};

// A site as a handshake sees it.
struct SitePolicy {
  const Settings* settings = nullptr;
  const Policy* policy = nullptr;              // Shared by sites with the same settings.
  std::vector<const Credential*> credentials;  // Certificates with their chains and keys.
  // What a session is bound to: resumed elsewhere it counts as none (session id context).
  std::array<unsigned char, 32> session_context{};
  // Of ssl_session_ticket_key: the first encrypts, all decrypt; none: the server's own do.
  std::vector<NamedTicketKey> ticket_keys;
  SessionCache* session_cache = nullptr;  // Of the site's zone; nullptr: none is kept.
  // Signing takes long: handshakes run in Offload.
  bool slow_key = false;
  // Its files could not be used: handshakes are refused.
  bool broken = false;
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
  TicketKeys* ticket_keys() const { return ticket_keys_; }
  // Memory that ssl_session_cache asks for, by name, and the cache made in it.
  const std::map<std::string, std::uint64_t>& zones() const { return zones_; }
  void use(const std::string& zone, SessionCache& cache);
  bool empty() const { return sites_.empty(); }
  // Where every connection begins, until its site is known.
  ssl_ctx_st* base() const;

 private:
  friend class StoreBuilder;
  struct Data;
  std::unique_ptr<Data> data_;
  std::unordered_map<const Settings*, SitePolicy> sites_;
  std::map<std::string, std::uint64_t> zones_;
  TicketKeys* ticket_keys_ = nullptr;
};

}  // namespace corehttpd::tls
