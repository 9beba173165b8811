#include "corehttpd/assets/near_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "assets/open_path.h"

namespace corehttpd::assets {

bool NearFiles::is_near_device(std::uint64_t device) const {
  const auto* end = devices_.begin() + devices_count_;
  return std::find(devices_.begin(), end, device) != end;
}

bool NearFiles::contains(std::string_view path, Milliseconds now) {
  const std::uint64_t hash = std::hash<std::string_view>()(path);
  Slot& slot = paths_[hash % kPathsMax];
  if (slot.hash == hash && now - slot.seen_ms < kWarmMs) {
    slot.seen_ms = now;  // It is asked for now.
    return true;
  }
  const int fd = open_cached(path);
  // Missing or forbidden by what is cached: the same answer comes again without waiting.
  if (fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES || fd == -ELOOP || fd == -ENAMETOOLONG) {
    if (is_near_device(nearest_device(path))) slot = {hash, now};
    return true;
  }
  if (fd < 0) return false;
  struct statx status;
  const bool known =
      ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
      is_near_device(::gnu_dev_makedev(status.stx_dev_major, status.stx_dev_minor));
  ::close(fd);
  if (known) slot = {hash, now};
  return known;
}

void NearFiles::add(std::string_view path, std::optional<std::uint64_t> device, Milliseconds now) {
  const std::uint64_t hash = std::hash<std::string_view>()(path);
  paths_[hash % kPathsMax] = {hash, now};
  if (!device || is_near_device(*device)) return;
  devices_[devices_next_] = *device;
  devices_next_ = (devices_next_ + 1) % kDevicesMax;
  devices_count_ = std::min(devices_count_ + 1, kDevicesMax);
}

}  // namespace corehttpd::assets
