#include "corehttpd/assets/directory.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "assets/open_path.h"
#include "corehttpd/assets/file_access.h"
#include "corehttpd/assets/file_work.h"

namespace corehttpd::assets {

bool DirectoryListing::add(const DirectoryEntry& entry) {
  truncated_ = records_.size() >= kEntriesMax;
  if (truncated_) return false;
  records_.push_back({entry.size, entry.modified_s, static_cast<std::uint32_t>(names_.size()),
                      static_cast<std::uint16_t>(entry.name.size()), entry.kind});
  names_.append(entry.name);
  return true;
}

void DirectoryListing::sort() {
  std::sort(records_.begin(), records_.end(), [this](const Record& a, const Record& b) {
    const bool a_first = a.kind == DirectoryEntry::Kind::kDirectory;
    const bool b_first = b.kind == DirectoryEntry::Kind::kDirectory;
    return a_first != b_first ? a_first : name_of(a) < name_of(b);
  });
}

DirectoryEntry DirectoryListing::operator[](std::size_t i) const {
  const Record& record = records_[i];
  return {name_of(record), record.size, record.modified_s, record.kind};
}

void DirectoryListing::count() {
  counted_ = sizeof(*this) + names_.capacity() + records_.capacity() * sizeof(Record);
  bytes_total_ += counted_;
}

namespace {

struct ListedState {
  std::unique_ptr<DirectoryListing> listing;
  int error = 0;
  bool done = false;
};

DirectoryEntry::Kind kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return DirectoryEntry::Kind::kDirectory;
  return S_ISREG(mode) ? DirectoryEntry::Kind::kFile : DirectoryEntry::Kind::kOther;
}

class ListingWork final : public FileWork {
 public:
  ListingWork(std::string_view path, LinkRule links)
      : path_(path), links_(links), listing_(std::make_unique<DirectoryListing>()) {}

 private:
  void work() noexcept override {
    const int fd = open_path(path_, links_, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0) {
      error_ = -fd;
      return;
    }
    DIR* directory = ::fdopendir(fd);
    if (directory == nullptr) {
      error_ = errno;
      ::close(fd);
      return;
    }
    read(directory);
    ::closedir(directory);
    listing_->sort();
  }

  void read(DIR* directory) {
    while (true) {
      errno = 0;
      const dirent* item = ::readdir(directory);
      if (item == nullptr) {
        error_ = errno;
        return;
      }
      if (item->d_name[0] == '.') continue;
      struct stat status;
      if (!status_of(::dirfd(directory), item->d_name, status)) continue;
      const bool added = listing_->add({item->d_name, static_cast<std::uint64_t>(status.st_size),
                                        status.st_mtim.tv_sec, kind_of(status.st_mode)});
      if (!added) return;
    }
  }

  // A link to nothing is listed as itself. What has gone meanwhile, or may not be looked at, isn't.
  bool status_of(int directory, const char* name, struct stat& status) const {
    if (links_.links == Links::kFollow) {
      if (::fstatat(directory, name, &status, 0) == 0) return true;
      if (errno != ENOENT && errno != ELOOP) return false;
    }
    return ::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  }

  void deliver(http::Exchange& exchange) override {
    auto& state = exchange.state<ListedState>();
    state.done = true;
    state.error = error_;
    if (error_ != 0) return;
    if (listing_->truncated()) {
      exchange.log(LogLevel::kWarn, 0,
                   "directory index of \"{}\" shows the first {} entries read, there are more",
                   path_, DirectoryListing::kEntriesMax);
    }
    listing_->count();
    state.listing = std::move(listing_);
  }

  const std::string path_;
  const LinkRule links_;
  std::unique_ptr<DirectoryListing> listing_;
  int error_ = 0;
};

}  // namespace

Listed list_directory(http::Exchange& exchange, std::string_view path) {
  auto& state = exchange.state<ListedState>();
  if (state.done) {
    state.done = false;  // An error page may list another directory.
    return {state.listing.get(), state.error, {}};
  }
  if (DirectoryListing::full()) {
    exchange.log(LogLevel::kError, 0, "directory listings being sent take too much memory");
    return {nullptr, 0, http::StepOutcome::fail(503)};
  }
  return {nullptr, 0,
          FileWork::start(exchange, std::make_unique<ListingWork>(path, link_rule(exchange, path)),
                          path)};
}

}  // namespace corehttpd::assets
