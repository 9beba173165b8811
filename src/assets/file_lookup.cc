#include "corehttpd/assets/file_lookup.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "assets/open_path.h"
#include "assets/read_small.h"
#include "corehttpd/base/check.h"

namespace corehttpd::assets {
namespace {

constexpr Milliseconds kSweepMs = 5'000;
// What a node costs beside its content: itself, its place in the table, malloc's own.
constexpr std::size_t kNodeBytes = 256;
// The kernel stamps changes with a clock that ticks every few milliseconds. Two changes within one
// tick look the same, so content is kept only if the last change is well in the past.
constexpr std::int64_t kSettledUs = 1'000'000;

}  // namespace

struct FileLookup::Node : ListHook<LruTag> {
  std::unique_ptr<char[]> text;
  std::string_view path;  // In text.
  FileStamp stamp;
  FileEntry entry;
  LinkRule links;
  Class node_class = Class::kContent;
  int error = 0;        // The lookup failed with this errno (open_file_cache_errors).
  bool loaded = false;  // lookup() made it, not only probe().
  bool settled = true;  // An equal stamp means equal content.
  bool near = false;    // would_wait() has found it in the kernel's caches.
  std::size_t charge = 0;
  std::uint64_t uses = 1;
  Milliseconds checked_ms = 0;  // When the stamp was last seen to be true.
  Milliseconds loaded_ms = 0;
  Milliseconds used_ms = 0;
  Milliseconds inactive_ms = 0;  // Of open_file_cache; 0: the limits' own.
};

FileStamp FileStamp::of(const struct stat& status) {
  FileStamp stamp;
  stamp.device = status.st_dev;
  stamp.inode = status.st_ino;
  stamp.size = static_cast<std::uint64_t>(status.st_size);
  stamp.modified_s = status.st_mtim.tv_sec;
  stamp.modified_ns = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  stamp.changed_s = status.st_ctim.tv_sec;
  stamp.changed_ns = static_cast<std::uint32_t>(status.st_ctim.tv_nsec);
  stamp.mode = status.st_mode;
  return stamp;
}

namespace {

FileEntry::Kind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileEntry::Kind::kRegular;
  if (S_ISDIR(mode)) return FileEntry::Kind::kDirectory;
  return FileEntry::Kind::kOther;
}

}  // namespace

FileEntry FileStamp::entry() const {
  FileEntry entry;
  entry.kind = kind_of(mode);
  entry.size = size;
  entry.modified_s = modified_s;
  entry.executable = (mode & S_IXUSR) != 0;
  return entry;
}

FileLookup::FileLookup(const Clock& clock, const Limits& limits)
    : clock_(clock),
      limits_(limits),
      timer_(
          [](io::Timer& timer) {
            FileLookup& self = static_cast<SweepTimer&>(timer).owner;
            self.drop_idle();
            self.loop_->schedule(self.timer_, kSweepMs);
          },
          *this) {}

FileLookup::~FileLookup() = default;

void FileLookup::start(io::Loop& loop) {
  loop_ = &loop;
  loop.schedule(timer_, kSweepMs);
}

Result<FileEntry> FileLookup::lookup(std::string_view path, const CachePolicy& policy,
                                     LinkRule links) {
  CORE_DCHECK(!path.empty() && path.data()[path.size()] == '\0');
  Node* node = find(path);
  if (node != nullptr && node->loaded && trusted(*node, policy, links)) return answer(*node);
  struct stat status;
  const int error = status_of(path, links, status);
  if (error != 0) return failed(node, path, error, policy, links);
  if (node != nullptr && node->loaded && node->error == 0 && holds(*node) &&
      node->stamp == FileStamp::of(status)) {
    node->checked_ms = clock_.now_ms();
    if (policy.enabled) manage(*node, policy);
    return answer(*node);
  }
  return load(node, path, status, policy, links);
}

Result<FileEntry> FileLookup::probe(std::string_view path, const CachePolicy& policy,
                                    LinkRule links) {
  CORE_DCHECK(!path.empty() && path.data()[path.size()] == '\0');
  Node* node = find(path);
  if (node != nullptr && trusted(*node, policy, links)) {
    auto known = answer(*node);
    if (known) {
      known->content.reset();
      known->file = FileRef();
    }
    return known;
  }
  struct stat status;
  const int error = status_of(path, links, status);
  remember_probe(path, links, error, status);
  if (error != 0) return failed(node, path, error, policy, links);
  const FileStamp stamp = FileStamp::of(status);
  if (policy.enabled && node == nullptr) {
    keep(nullptr, path, stamp, stamp.entry(), policy, links)->loaded = false;
  } else if (node != nullptr && (node->error != 0 || node->stamp != stamp)) {
    erase(*node);
  } else if (node != nullptr) {
    node->checked_ms = clock_.now_ms();
  }
  return stamp.entry();
}

bool FileLookup::would_wait(std::string_view path, bool open, const CachePolicy& policy,
                            LinkRule links) {
  const Milliseconds now = clock_.now_ms();
  const auto found = nodes_.find(path);
  if (found == nodes_.end()) return !near_.contains(path, now);
  Node& node = *found->second;
  if ((node.loaded || !open) && trusted(node, policy, links)) return false;
  // A name that answered a moment ago is still in the kernel's caches.
  if (node.near && now - node.checked_ms < NearFiles::kWarmMs) return false;
  node.near = near_.contains(path, now);
  return !node.near;
}

void FileLookup::mark_near(std::string_view path, std::optional<std::uint64_t> device) {
  near_.add(path, device, clock_.now_ms());
}

void FileLookup::learn(std::string_view path, const FileStamp& stamp, const FileEntry& entry,
                       const CachePolicy& policy, LinkRule links) {
  if (!policy.enabled) return;
  keep(find(path), path, stamp, entry, policy, links);
}

FileLookup::Node* FileLookup::find(std::string_view path) {
  const auto found = nodes_.find(path);
  if (found == nodes_.end()) return nullptr;
  Node& node = *found->second;
  const Milliseconds now = clock_.now_ms();
  // open_file_cache_min_uses counts within the inactive time.
  if (node.inactive_ms != 0 && now - node.used_ms > node.inactive_ms) node.uses = 0;
  ++node.uses;
  node.used_ms = now;
  list(node.node_class).push_back(node);
  return &node;
}

// May this node answer without a system call?
bool FileLookup::trusted(const Node& node, const CachePolicy& policy, LinkRule links) const {
  // One that was made where no open_file_cache holds was not made under its terms.
  if (!policy.enabled || node.node_class != Class::kManaged) return false;
  if (node.uses < policy.uses_min || node.links != links) return false;
  if (node.error != 0 && !policy.errors) return false;
  return clock_.now_ms() - node.checked_ms < policy.valid_ms;
}

// Does the node still have what serving the file takes?
bool FileLookup::holds(const Node& node) const {
  const FileEntry& entry = node.entry;
  if (entry.kind != FileEntry::Kind::kRegular || entry.size == 0) return true;
  if (entry.content) {
    return node.settled && clock_.now_ms() - node.loaded_ms < limits_.content_age_ms;
  }
  return static_cast<bool>(entry.file);
}

Result<FileEntry> FileLookup::answer(Node& node) const {
  if (node.error != 0) return std::unexpected(error_from_errno(node.error, "open()"));
  return node.entry;
}

int FileLookup::status_of(std::string_view path, LinkRule links, struct stat& status) {
  if (memo_.path_bytes == path.size() && memo_.turn_us == clock_.now_us() && memo_.links == links &&
      std::memcmp(memo_.path, path.data(), path.size()) == 0) {
    memo_.path_bytes = 0;
    status = memo_.status;
    return memo_.error;
  }
  return stat_path(path, links, status);
}

void FileLookup::remember_probe(std::string_view path, LinkRule links, int error,
                                const struct stat& status) {
  if (path.size() > Memo::kPathMax) return;
  memo_.path_bytes = path.size();
  memo_.turn_us = clock_.now_us();
  memo_.error = error;
  memo_.links = links;
  if (error == 0) memo_.status = status;
  std::memcpy(memo_.path, path.data(), path.size());
}

Result<FileEntry> FileLookup::failed(Node* node, std::string_view path, int error,
                                     const CachePolicy& policy, LinkRule links) {
  const std::uint64_t uses = node == nullptr ? 1 : node->uses;
  if (node != nullptr) erase(*node);
  // Running out of something says nothing about the file.
  const bool lasting = error != EMFILE && error != ENFILE && error != ENOMEM && error != EINTR;
  if (policy.enabled && policy.errors && lasting) {
    Node& fresh = insert(path, Class::kManaged, policy, links);
    fresh.error = error;
    fresh.uses = uses;
    fresh.loaded = true;
  }
  return std::unexpected(error_from_errno(error, "open()"));
}

Result<FileEntry> FileLookup::load(Node* node, std::string_view path, const struct stat& status,
                                   const CachePolicy& policy, LinkRule links) {
  if (S_ISREG(status.st_mode)) return open_regular(node, path, policy, links);
  const FileStamp stamp = FileStamp::of(status);
  FileEntry entry = stamp.entry();
  if (policy.enabled) {
    keep(node, path, stamp, entry, policy, links);
  } else if (node != nullptr) {
    erase(*node);
  }
  return entry;
}

Result<FileEntry> FileLookup::open_regular(Node* node, std::string_view path,
                                           const CachePolicy& policy, LinkRule links) {
  const int fd = open_path(path, links, kOpenToRead);
  if (fd < 0) return failed(node, path, -fd, policy, links);
  FileRef file = FileRef::adopt(fd);
  struct stat before;
  if (::fstat(fd, &before) != 0) return failed(node, path, errno, policy, links);
  const FileStamp stamp = FileStamp::of(before);
  FileEntry entry = stamp.entry();
  if (entry.kind != FileEntry::Kind::kRegular) {
    if (node != nullptr) erase(*node);
    return entry;
  }
  const bool small = entry.size != 0 && entry.size <= limits_.content_file_bytes;
  if (small) entry.content = read_small(fd, before);
  if (entry.size != 0 && !entry.content) entry.file = std::move(file);
  // A small file that couldn't be read at once is served from its descriptor this time; that warms
  // the page cache, and the next request tries again.
  // open_file_cache's owner trusts even what was written a moment ago, though no longer than that.
  const bool keepable = small ? entry.content && (settled(stamp) || policy.enabled) : true;
  if (keepable) {
    keep(node, path, stamp, entry, policy, links);
  } else if (node != nullptr) {
    erase(*node);
  }
  return entry;
}

bool FileLookup::settled(const FileStamp& stamp) const {
  // Only the change time counts: the modification time is the owner's to set.
  const std::int64_t changed_us = stamp.changed_s * 1'000'000 + stamp.changed_ns / 1000;
  return clock_.wall_us() - changed_us >= kSettledUs;
}

// Replaces node (nullptr: there is none yet) by what was found out. nullptr if nothing is kept.
FileLookup::Node* FileLookup::keep(Node* node, std::string_view path, const FileStamp& stamp,
                                   const FileEntry& entry, const CachePolicy& policy,
                                   LinkRule links) {
  const std::uint64_t uses = node == nullptr ? 1 : node->uses;
  if (node != nullptr) erase(*node);
  bool with_descriptor = static_cast<bool>(entry.file);
  if (with_descriptor && policy.enabled && uses < policy.uses_min) {
    with_descriptor = false;  // The node stays, to count uses.
  } else if (with_descriptor && descriptors_ >= limits_.descriptors && !free_descriptor()) {
    return nullptr;
  }
  Class node_class = with_descriptor ? Class::kDescriptor : Class::kContent;
  if (policy.enabled) node_class = Class::kManaged;
  Node& fresh = insert(path, node_class, policy, links);
  fresh.stamp = stamp;
  fresh.entry = entry;
  fresh.uses = uses;
  fresh.loaded = with_descriptor || !entry.file;
  if (with_descriptor) {
    ++descriptors_;
  } else {
    fresh.entry.file = FileRef();
  }
  if (entry.content) {
    fresh.settled = settled(stamp);
    fresh.charge += entry.content->capacity();
    charged_ += entry.content->capacity();
    shrink(fresh);
  }
  return &fresh;
}

FileLookup::Node& FileLookup::insert(std::string_view path, Class node_class,
                                     const CachePolicy& policy, LinkRule links) {
  while (nodes_.size() >= limits_.entries) erase(*oldest(nullptr));
  if (node_class == Class::kManaged) {
    while (managed_ != 0 && managed_ >= policy.entries_max) erase(list(Class::kManaged).front());
    ++managed_;
  }
  auto made = std::make_unique<Node>();
  Node& node = *made;
  node.text = std::make_unique_for_overwrite<char[]>(path.size());
  std::memcpy(node.text.get(), path.data(), path.size());
  node.path = {node.text.get(), path.size()};
  node.node_class = node_class;
  node.links = links;
  node.charge = kNodeBytes + path.size();
  node.checked_ms = node.loaded_ms = node.used_ms = clock_.now_ms();
  node.inactive_ms = policy.enabled ? policy.inactive_ms : 0;
  charged_ += node.charge;
  list(node_class).push_back(node);
  nodes_.emplace(node.path, std::move(made));
  shrink(node);
  return node;
}

// From now on the node lives by open_file_cache's terms.
void FileLookup::manage(Node& node, const CachePolicy& policy) {
  if (node.node_class == Class::kManaged) return;
  while (managed_ != 0 && managed_ >= policy.entries_max) erase(list(Class::kManaged).front());
  ++managed_;
  node.node_class = Class::kManaged;
  node.inactive_ms = policy.inactive_ms;
  node.uses = 1;
  list(Class::kManaged).push_back(node);
}

void FileLookup::erase(Node& node) {
  if (node.entry.file) --descriptors_;
  if (node.node_class == Class::kManaged) --managed_;
  charged_ -= node.charge;
  const auto found = nodes_.find(node.path);
  CORE_DCHECK(found != nodes_.end());
  nodes_.erase(found);
}

FileLookup::Node* FileLookup::oldest(const Node* spared) {
  Node* found = nullptr;
  for (auto& nodes : lru_) {
    Node* first = nodes.first();
    // The spared one is the newest of its list, so if it is first it is alone there.
    if (first == nullptr || first == spared) continue;
    if (found == nullptr || first->used_ms < found->used_ms) found = first;
  }
  return found;
}

// Erases the least recently used until all fit into the limit.
void FileLookup::shrink(const Node& spared) {
  while (charged_ > limits_.content_total_bytes) {
    Node* node = oldest(&spared);
    if (node == nullptr) return;
    erase(*node);
  }
}

bool FileLookup::free_descriptor() {
  Node* node = list(Class::kDescriptor).first();
  if (node == nullptr) {
    auto& managed = list(Class::kManaged);
    node = managed.first();
    while (node != nullptr && !node->entry.file) node = managed.next(*node);
  }
  if (node == nullptr) return false;
  erase(*node);
  return true;
}

void FileLookup::drop_idle() {
  const Milliseconds now = clock_.now_ms();
  const Milliseconds limits[kClasses] = {limits_.content_idle_ms, limits_.descriptor_idle_ms, 0};
  for (std::size_t i = 0; i < kClasses; ++i) {
    for (Node* node = lru_[i].first(); node != nullptr;) {
      Node* next = lru_[i].next(*node);
      const bool managed = node->node_class == Class::kManaged;
      const bool idle = now - node->used_ms >= (managed ? node->inactive_ms : limits[i]);
      // In order of use: where one limit holds for all, those that follow are younger still.
      if (!idle && !managed) break;
      if (idle) erase(*node);
      node = next;
    }
  }
}

}  // namespace corehttpd::assets
