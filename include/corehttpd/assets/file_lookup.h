// What a path names: the hot path of static files. One per worker.
//
// Small files are kept in memory, larger ones open. Neither is trusted: each lookup asks the kernel
// once (stat), and only if device, inode, size, mode and both times are what they were when the
// file was read does the kept copy answer. So a replaced, rewritten, truncated, forbidden or
// deleted file is seen by the next request. Only open_file_cache buys freedom from that call, for
// as long as its owner says.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "corehttpd/assets/file_work.h"
#include "corehttpd/assets/near_files.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/base/block.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/error.h"
#include "corehttpd/base/file_handle.h"
#include "corehttpd/base/list.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::assets {

struct FileEntry {
  enum class Kind : std::uint8_t {
    kRegular,
    kDirectory,
    kOther,  // FIFO, socket, device: never opened, never served.
  };
  Kind kind = Kind::kRegular;
  std::uint64_t size = 0;
  std::int64_t modified_s = 0;  // Unix seconds.
  bool executable = false;      // By its owner.
  // Of a regular file with content exactly one of these is set, and none after probe(). The block
  // holds the whole file in its first size bytes.
  BlockRef content;
  FileRef file;
};

// Identity and version of a file: while it stays equal, so does the content.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_s = 0, changed_s = 0;
  std::uint32_t modified_ns = 0, changed_ns = 0;
  std::uint32_t mode = 0;

  static FileStamp of(const struct stat& status);
  // Kind, size and time, with neither content nor descriptor.
  FileEntry entry() const;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class FileLookup {
 public:
  struct Limits {
    std::size_t content_file_bytes = 64 * 1024;          // Larger files are not kept in memory.
    std::size_t content_total_bytes = 64 * 1024 * 1024;  // Content and bookkeeping together.
    std::size_t descriptors = 512;                       // Kept open at most.
    std::size_t entries = 64 * 1024;
    // A descriptor nobody uses holds the space of a deleted file and a mount point: not for long.
    Milliseconds descriptor_idle_ms = 20'000;
    Milliseconds content_idle_ms = 600'000;
    // Writes through a mapping may change a file without touching its times, so that even an
    // unchanged stamp is not believed for longer than this.
    Milliseconds content_age_ms = 60'000;
  };

  explicit FileLookup(const Clock& clock) : FileLookup(clock, Limits()) {}
  FileLookup(const Clock& clock, const Limits& limits);
  FileLookup(const FileLookup&) = delete;
  FileLookup& operator=(const FileLookup&) = delete;
  ~FileLookup();
  // Lets go of what is idle, every few seconds. The loop must outlive this object.
  void start(io::Loop& loop);

  // path must be absolute and NUL-terminated past its end. Errors have the errno as detail:
  // kNotFound (ENOENT, ENOTDIR, ENAMETOOLONG) is 404, kForbidden (EACCES, ELOOP…) 403, the rest
  // 500.
  // links: how the path is walked; a refused link is ELOOP. Both functions may wait for the disk
  // unless would_wait() has just said otherwise.
  Result<FileEntry> lookup(std::string_view path, const CachePolicy& policy, LinkRule links = {});
  // Kind, size and time only; nothing is opened. A lookup() of the same path within this turn does
  // not ask the kernel again.
  Result<FileEntry> probe(std::string_view path, const CachePolicy& policy, LinkRule links = {});

  // False: answering takes no more than what the kernel keeps in memory, of a file system that
  // never asks a server. Otherwise the lookup belongs into a thread (file_access.h).
  // open: lookup() is meant, not probe().
  bool would_wait(std::string_view path, bool open, const CachePolicy& policy, LinkRule links = {});
  // What such a thread found out. near: path now lies in the kernel's caches, and so does whatever
  // else of this device that would_wait() finds there. nothing: it does not exist.
  void mark_near(std::string_view path, std::optional<std::uint64_t> device);
  // Keeps what a thread has found on a file system that is not near, if open_file_cache says so.
  void learn(std::string_view path, const FileStamp& stamp, const FileEntry& entry,
             const CachePolicy& policy, LinkRule links);
  Result<FileEntry> learn_failure(std::string_view path, int error, const CachePolicy& policy,
                                  LinkRule links) {
    return failed(find(path), path, error, policy, links);
  }
  FileWorkQueue& work() { return work_; }

  void drop_idle();
  std::size_t entries() const { return nodes_.size(); }
  std::size_t content_bytes() const { return charged_; }
  std::size_t descriptors() const { return descriptors_; }

 private:
  struct LruTag {};
  struct Node;
  struct SweepTimer : io::Timer {
    SweepTimer(Fire fire, FileLookup& owner) : Timer(fire), owner(owner) {}
    FileLookup& owner;
  };
  // The last probe, good for one lookup of the same turn.
  struct Memo {
    static constexpr std::size_t kPathMax = 512;
    std::size_t path_bytes = 0;  // 0: nothing remembered.
    std::int64_t turn_us = 0;
    int error = 0;
    LinkRule links;
    struct stat status;
    char path[kPathMax];
  };

  // Each node is in the list of its class, so that what runs short is found without a search.
  enum class Class : std::uint8_t {
    kContent,     // Holds content (or an empty file).
    kDescriptor,  // Holds an open file.
    kManaged,     // Made under open_file_cache, whatever it holds; bounded by its max.
  };
  static constexpr std::size_t kClasses = 3;

  Node* find(std::string_view path);
  Node& insert(std::string_view path, Class node_class, const CachePolicy& policy, LinkRule links);
  void manage(Node& node, const CachePolicy& policy);
  void erase(Node& node);
  List<Node, LruTag>& list(Class node_class) { return lru_[static_cast<std::size_t>(node_class)]; }
  Node* oldest(const Node* spared);
  void shrink(const Node& spared);
  bool free_descriptor();
  bool trusted(const Node& node, const CachePolicy& policy, LinkRule links) const;
  bool holds(const Node& node) const;
  Result<FileEntry> answer(Node& node) const;
  int status_of(std::string_view path, LinkRule links, struct stat& status);
  void remember_probe(std::string_view path, LinkRule links, int error, const struct stat& status);
  Result<FileEntry> failed(Node* node, std::string_view path, int error, const CachePolicy& policy,
                           LinkRule links);
  Result<FileEntry> load(Node* node, std::string_view path, const struct stat& status,
                         const CachePolicy& policy, LinkRule links);
  Result<FileEntry> open_regular(Node* node, std::string_view path, const CachePolicy& policy,
                                 LinkRule links);
  Node* keep(Node* node, std::string_view path, const FileStamp& stamp, const FileEntry& entry,
             const CachePolicy& policy, LinkRule links);
  bool settled(const FileStamp& stamp) const;

  const Clock& clock_;
  const Limits limits_;
  std::unordered_map<std::string_view, std::unique_ptr<Node>> nodes_;  // Keys point into nodes.
  List<Node, LruTag> lru_[kClasses];                                   // Least recently used first.
  std::size_t managed_ = 0;
  std::size_t charged_ = 0;
  std::size_t descriptors_ = 0;
  Memo memo_;
  NearFiles near_;
  FileWorkQueue work_;
  io::Loop* loop_ = nullptr;
  SweepTimer timer_;
};

}  // namespace corehttpd::assets
