// Shared memory that outlives reloads and upgrades: memfds held by the master, passed over fork and
// exec. Offsets only, never pointers. A segment starts with a Header; one whose size, layout
// version or definition changed starts fresh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "corehttpd/base/error.h"

namespace corehttpd::shm {

// Layout, all little-endian, 64 bytes, then the user's data.
struct Header {
  static constexpr std::uint64_t kMagic = 0x31647074'7472'6f63;  // "cortptd1", so to speak.
  std::uint64_t magic;
  std::uint32_t layout_version;  // The user's: changes when the data's layout does.
  std::uint32_t data_bytes;
  std::uint64_t definition;  // Hash of what else must be equal (a zone's key).
  std::uint8_t reserved[40];
};
static_assert(sizeof(Header) == 64);

class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();  // Unmaps and closes; the memory lives while any process has it.
  // A new zeroed segment named for /proc (memfd_create), of fixed size, close-on-exec: who passes
  // it over exec clears that flag in the child. data_bytes: up to 4 GiB - 1, else kTooLarge. Pages
  // are taken from the system when they are first touched.
  static Result<Segment> create(std::string_view name, std::uint32_t layout_version,
                                std::size_t data_bytes, std::uint64_t definition);
  // An inherited one; kMalformed when header and wish differ, then create() a fresh one and say so
  // in the log. Takes fd over on success; after a failure it is still the caller's.
  static Result<Segment> attach(int fd, std::uint32_t layout_version, std::size_t data_bytes,
                                std::uint64_t definition);
  std::byte* data() const { return base_ + sizeof(Header); }
  std::size_t data_bytes() const { return bytes_ - sizeof(Header); }
  int fd() const { return fd_; }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace corehttpd::shm
