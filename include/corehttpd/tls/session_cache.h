// Sessions that clients name by an identifier (TLS 1.2 without tickets), in memory that all workers
// of all generations share: ssl_session_cache shared:NAME:SIZE. docs/formats.md describes the
// memory. What is in the way of another is dropped; a session that is not found costs a handshake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace corehttpd::tls {

class SessionCache {
 public:
  static constexpr std::uint32_t kLayoutVersion = 1;
  static constexpr std::size_t kSlotBytes = 1024;
  static constexpr std::size_t kIdMax = 32;
  // Larger ones, with long certificates of clients in them, are not kept.
  static constexpr std::size_t kSessionMax = kSlotBytes - 64;

  // memory: of a segment, zeroed when fresh, at least four slots; must outlive the object.
  explicit SessionCache(std::span<std::byte> memory);

  // Times are of the wall clock. id: 1 to kIdMax bytes.
  void store(std::span<const unsigned char> id, std::span<const unsigned char> session,
             std::int64_t now_s, std::int64_t expires_s);
  // into: the session's bytes; false: there is none.
  bool find(std::span<const unsigned char> id, std::int64_t now_s, std::string& into) const;

 private:
  struct Slot;
  std::span<Slot> set_of(std::span<const unsigned char> id) const;

  Slot* slots_;
  std::size_t sets_;
};

}  // namespace corehttpd::tls
