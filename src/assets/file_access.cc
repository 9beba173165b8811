#include "corehttpd/assets/file_access.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "assets/open_path.h"
#include "corehttpd/assets/file_work.h"

namespace corehttpd::assets {
namespace {

// So much of a file is read for those that follow; larger ones are read as they are sent.
constexpr std::size_t kContentBytesMax = 64 * 1024;

// What a request has waited for. It is not asked again: a step that runs once more sees what it saw
// before.
struct Waited {
  struct Answer {
    Answer* next = nullptr;
    std::string_view path;
    Need need = Need::kKind;
    bool near = false;  // The thread has warmed the kernel's caches; the answer is theirs.
    Result<FileEntry> entry;
  };
  Answer* first = nullptr;

  const Answer* find(std::string_view path, Need need) const {
    for (const Answer* at = first; at != nullptr; at = at->next) {
      if (at->need == need && at->path == path) return at;
    }
    return nullptr;
  }
};

class LookupWork final : public FileWork {
 public:
  LookupWork(std::string_view path, LinkRule links, Need need)
      : path_(path), links_(links), need_(need) {}
  ~LookupWork() override {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  void work() noexcept override {
    const int fd = open_path(path_, links_, O_PATH);
    if (fd < 0) {
      error_ = -fd;
      near_ = parent_is_local();
      return;
    }
    error_ = ::fstat(fd, &status_) == 0 ? 0 : errno;
    near_ = is_local(fd);
    ::close(fd);
    if (error_ == 0 && S_ISREG(status_.st_mode) && need_ == Need::kContent) open_file();
  }

  void open_file() {
    fd_ = open_path(path_, links_, kOpenToRead);
    if (fd_ < 0) {
      error_ = -fd_;
    } else if (::fstat(fd_, &status_) != 0) {
      error_ = errno;
    } else if (S_ISREG(status_.st_mode) && status_.st_size > 0) {
      read_beginning();
    }
  }

  // Of a small file all. On a near file system what matters is that it lies in the page cache then.
  void read_beginning() {
    const auto size = static_cast<std::size_t>(
        std::min<off_t>(status_.st_size, static_cast<off_t>(kContentBytesMax)));
    BlockRef block = Block::allocate(size);
    std::size_t done = 0;
    while (done < size) {
      const ssize_t count =
          ::pread(fd_, block->data() + done, size - done, static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
    struct stat after;
    if (near_ || status_.st_size > static_cast<off_t>(kContentBytesMax)) return;
    if (::fstat(fd_, &after) == 0 && FileStamp::of(after) == FileStamp::of(status_)) {
      content_ = std::move(block);
    }
  }

  // Of what does not exist the nearest directory that does says where it is not.
  bool parent_is_local() const {
    std::string parent = path_;
    while (parent.size() > 1) {
      const std::size_t slash = parent.rfind('/');
      parent.resize(slash == 0 || slash == std::string::npos ? 1 : slash);
      const int fd = open_path(parent, LinkRule{}, O_PATH);
      if (fd < 0) continue;
      const bool local = is_local(fd);
      ::close(fd);
      return local;
    }
    return false;
  }

  void deliver(http::Exchange& exchange) override {
    auto& state = exchange.state<Waited>();
    auto* answer = exchange.arena().make<Waited::Answer>();
    answer->path = exchange.arena().copy(path_);
    answer->need = need_;
    answer->near = near_;
    answer->next = state.first;
    state.first = answer;
    FileLookup& files = *exchange.services().files;
    if (near_) {
      files.mark_near(answer->path,
                      error_ == 0 ? std::optional<std::uint64_t>(status_.st_dev) : std::nullopt);
      return;
    }
    answer->entry = found(files, exchange.settings<Settings>().open_files, answer->path);
  }

  Result<FileEntry> found(FileLookup& files, const CachePolicy& policy, std::string_view path) {
    if (error_ != 0) return files.learn_failure(path, error_, policy, links_);
    const FileStamp stamp = FileStamp::of(status_);
    FileEntry entry = stamp.entry();
    if (content_) {
      entry.content = std::move(content_);
    } else if (entry.kind == FileEntry::Kind::kRegular && entry.size != 0 && fd_ >= 0) {
      entry.file = FileRef::adopt(fd_);
      fd_ = -1;
    }
    files.learn(path, stamp, entry, policy, links_);
    return entry;
  }

  const std::string path_;
  const LinkRule links_;
  const Need need_;
  int error_ = 0;
  bool near_ = false;
  struct stat status_ = {};
  int fd_ = -1;
  BlockRef content_;
};

}  // namespace

LinkRule link_rule(http::Exchange& exchange, std::string_view path) {
  const Settings& settings = exchange.settings<Settings>();
  if (settings.links == Links::kFollow) return {};
  LinkRule rule{settings.links, 0};
  std::string_view from = settings.links_from.evaluate(exchange);
  while (from.ends_with('/')) from.remove_suffix(1);
  // Only whole components are trusted, and only at the beginning.
  if (!from.empty() && path.starts_with(from) &&
      (path.size() == from.size() || path[from.size()] == '/')) {
    rule.trusted_bytes = static_cast<std::uint32_t>(from.size());
  }
  return rule;
}

Asked ask(http::Exchange& exchange, std::string_view path, Need need) {
  FileLookup& files = *exchange.services().files;
  const CachePolicy& policy = exchange.settings<Settings>().open_files;
  const LinkRule links = link_rule(exchange, path);
  bool may_wait = false;
  if (const auto* waited = exchange.find_state<Waited>()) {
    if (const auto* known = waited->find(path, need)) {
      if (!known->near) return {known->entry, {}};
      may_wait = true;  // It won't: the thread has just been there.
    }
  }
  if (!may_wait && files.would_wait(path, need == Need::kContent, policy, links)) {
    return {std::nullopt,
            FileWork::start(exchange, std::make_unique<LookupWork>(path, links, need), path)};
  }
  if (need == Need::kKind) return {files.probe(path, policy, links), {}};
  return {files.lookup(path, policy, links), {}};
}

}  // namespace corehttpd::assets
