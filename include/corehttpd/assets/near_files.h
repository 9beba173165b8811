// Which paths can be asked for without waiting. A stat(2) or open(2) of a name that the kernel has
// in its caches takes a microsecond; of one that it has not, as long as the disk takes, and on a
// network or FUSE file system as long as the server there takes, cached or not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "corehttpd/base/clock.h"

namespace corehttpd::assets {

class NearFiles {
 public:
  // So long after an answer the name is taken to be still cached.
  static constexpr Milliseconds kWarmMs = 10'000;
  static constexpr std::size_t kDevicesMax = 64;  // The oldest gives way.
  static constexpr std::size_t kPathsMax = 2048;  // So do paths of the same slot.

  // True: calls on path do not wait. path is NUL-terminated past its end. Never waits itself.
  bool contains(std::string_view path, Milliseconds now);
  // A thread has just asked for path, so that it is cached now. device: it exists, on a local file
  // system of that number.
  void add(std::string_view path, std::optional<std::uint64_t> device, Milliseconds now);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    Milliseconds seen_ms = -kWarmMs;
  };
  bool is_near_device(std::uint64_t device) const;

  std::array<Slot, kPathsMax> paths_{};
  std::array<std::uint64_t, kDevicesMax> devices_{};
  std::size_t devices_count_ = 0;
  std::size_t devices_next_ = 0;
};

}  // namespace corehttpd::assets
