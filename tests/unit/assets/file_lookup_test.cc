#include "corehttpd/assets/file_lookup.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "support/temp_dir.h"

namespace corehttpd::assets {
namespace {

using Kind = FileEntry::Kind;

class FileLookupTest : public ::testing::Test {
 protected:
  // Files just written count as settled after this.
  void advance(Milliseconds by_ms) {
    clock.set(clock.now_ms() + by_ms, clock.wall_us() + by_ms * 1000);
  }
  static std::string content_of(const FileEntry& entry) {
    if (entry.content) {
      return {reinterpret_cast<const char*>(entry.content->data()),
              static_cast<std::size_t>(entry.size)};
    }
    std::string text(entry.size, '\0');
    const ssize_t count = entry.file ? ::pread(entry.file->fd(), text.data(), text.size(), 0) : 0;
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }
  std::string get(const std::string& path) {
    const auto entry = files.lookup(path, policy);
    if (!entry) return "error " + std::to_string(entry.error().detail);
    return content_of(*entry);
  }

  test::TempDir directory;
  Clock clock;
  CachePolicy policy;
  FileLookup files{clock};
};

TEST_F(FileLookupTest, KeepsContentOfSmallSettledFiles) {
  const std::string path = directory.write("a.txt", "hello");
  advance(5000);
  const auto first = files.lookup(path, policy);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, Kind::kRegular);
  EXPECT_EQ(first->size, 5u);
  EXPECT_EQ(content_of(*first), "hello");
  ASSERT_TRUE(first->content);
  const auto second = files.lookup(path, policy);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->content.get(), first->content.get());  // The same block: nothing was read.
  EXPECT_EQ(files.entries(), 1u);
}

TEST_F(FileLookupTest, FreshFilesAreServedButNotKept) {
  // Another write within the same tick of the kernel's clock would leave size and times as they
  // are, so what is younger than a second is read anew each time.
  const std::string path = directory.write("a.txt", "one");
  clock.update();
  EXPECT_EQ(get(path), "one");
  EXPECT_EQ(files.entries(), 0u);
  directory.write("a.txt", "two");
  EXPECT_EQ(get(path), "two");
}

TEST_F(FileLookupTest, SameSizeRewriteOfAKeptFileIsSeen) {
  const std::string path = directory.write("a.txt", "one");
  advance(5000);
  EXPECT_EQ(get(path), "one");
  ASSERT_EQ(files.entries(), 1u);
  directory.write("a.txt", "two");
  // Not even the owner setting the old modification time hides it: the change time is the kernel's.
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(get(path), "two");
}

TEST_F(FileLookupTest, ReplacedTruncatedAndDeletedFilesAreSeen) {
  const std::string path = directory.write("a.txt", "old content");
  advance(5000);
  EXPECT_EQ(get(path), "old content");
  const std::string other = directory.write("b.txt", "new content");
  ASSERT_EQ(::rename(other.c_str(), path.c_str()), 0);
  EXPECT_EQ(get(path), "new content");
  ASSERT_EQ(::truncate(path.c_str(), 3), 0);
  EXPECT_EQ(get(path), "new");
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  EXPECT_EQ(get(path), "");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(get(path), "error 2");
  EXPECT_EQ(files.entries(), 0u);
}

TEST_F(FileLookupTest, LargeFilesAreKeptOpen) {
  const std::string path = directory.write("big", std::string(100'000, 'x'));
  const auto first = files.lookup(path, policy);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->content);
  ASSERT_TRUE(first->file);
  EXPECT_EQ(first->size, 100'000u);
  const auto second = files.lookup(path, policy);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->file.get(), first->file.get());
  EXPECT_EQ(files.descriptors(), 1u);

  directory.write("big2", std::string(100'000, 'y'));
  ASSERT_EQ(::rename(directory.path("big2").c_str(), path.c_str()), 0);
  EXPECT_EQ(get(path), std::string(100'000, 'y'));
  EXPECT_EQ(files.descriptors(), 1u);
}

TEST_F(FileLookupTest, ErrorsAreToldApart) {
  const std::string file = directory.write("a.txt", "x");
  EXPECT_EQ(files.lookup(directory.path("none"), policy).error().code, Code::kNotFound);
  const auto below = files.lookup(file + "/b", policy);
  EXPECT_EQ(below.error().code, Code::kNotFound);
  EXPECT_EQ(below.error().detail, ENOTDIR);
  const std::string long_name = directory.path(std::string(300, 'n'));
  EXPECT_EQ(files.lookup(long_name, policy).error().code, Code::kNotFound);
  EXPECT_EQ(files.lookup(long_name, policy).error().detail, ENAMETOOLONG);
  const std::string loop = directory.path("loop");
  ASSERT_EQ(::symlink(loop.c_str(), loop.c_str()), 0);
  EXPECT_EQ(files.lookup(loop, policy).error().code, Code::kForbidden);
}

TEST_F(FileLookupTest, OnlyRegularFilesAreOpened) {
  EXPECT_EQ(files.lookup(directory.path(), policy)->kind, Kind::kDirectory);
  const std::string fifo = directory.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0644), 0);
  const auto entry = files.lookup(fifo, policy);  // Must not wait for a writer.
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->kind, Kind::kOther);
  EXPECT_FALSE(entry->file);
  const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = directory.path("sock");
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(files.lookup(socket_path, policy)->kind, Kind::kOther);
  ::close(server);
  EXPECT_EQ(files.lookup("/dev/null", policy)->kind, Kind::kOther);
}

// Root may read everything, so a child that is somebody else asks, before and after the change.
TEST_F(FileLookupTest, WithdrawnPermissionOfAKeptFileIsForbidden) {
  const std::string path = directory.write("a.txt", "secret");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 33, 33), 0);
  }
  advance(5000);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(33) != 0 || ::setuid(33) != 0)) ::_exit(77);
    if (get(path) != "secret" || files.entries() != 1) ::_exit(1);
    if (::chmod(path.c_str(), 0) != 0) ::_exit(2);
    const auto entry = files.lookup(path, policy);
    if (entry) ::_exit(3);
    if (entry.error().code != Code::kForbidden || entry.error().detail != EACCES) ::_exit(4);
    ::_exit(files.entries() == 0 ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(FileLookupTest, ModeIsPartOfTheStamp) {
  const std::string path = directory.write("a.txt", "x");
  struct stat before, after;
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  ASSERT_EQ(::stat(path.c_str(), &after), 0);
  after.st_ctim = before.st_ctim;
  EXPECT_NE(FileStamp::of(before), FileStamp::of(after));
}

TEST_F(FileLookupTest, ProbeOpensNothingAndSavesTheLookupItsQuestion) {
  const std::string path = directory.write("a.txt", "x");
  advance(5000);
  const auto probed = files.probe(path, policy);
  ASSERT_TRUE(probed);
  EXPECT_EQ(probed->kind, Kind::kRegular);
  EXPECT_EQ(probed->size, 1u);
  EXPECT_FALSE(probed->content);
  EXPECT_FALSE(probed->file);
  EXPECT_EQ(files.entries(), 0u);
  EXPECT_EQ(get(path), "x");
  // Used up: the next lookup asks again, even in the same turn.
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(get(path), "error 2");
  EXPECT_FALSE(files.probe(path, policy));
}

TEST_F(FileLookupTest, ProbeOfAnEarlierTurnIsNotBelieved) {
  const std::string path = directory.write("a.txt", "x");
  ASSERT_TRUE(files.probe(path, policy));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  advance(1);
  EXPECT_EQ(get(path), "error 2");
}

TEST_F(FileLookupTest, OpenFileCacheTrustsForItsTime) {
  policy.enabled = true;
  policy.entries_max = 100;
  policy.valid_ms = 30'000;
  const std::string path = directory.write("a.txt", "one");
  advance(5000);
  EXPECT_EQ(get(path), "one");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  advance(29'000);
  EXPECT_EQ(get(path), "one");
  EXPECT_TRUE(files.probe(path, policy));
  advance(2'000);
  EXPECT_EQ(get(path), "error 2");
  // Failures are not remembered unless asked for.
  directory.write("a.txt", "two");
  EXPECT_EQ(get(path), "two");
}

TEST_F(FileLookupTest, OpenFileCacheRemembersErrorsIfAsked) {
  policy.enabled = true;
  policy.errors = true;
  policy.entries_max = 100;
  policy.valid_ms = 30'000;
  const std::string path = directory.path("a.txt");
  EXPECT_EQ(get(path), "error 2");
  directory.write("a.txt", "one");
  EXPECT_EQ(get(path), "error 2");
  EXPECT_FALSE(files.probe(path, policy));
  // A location without open_file_cache_errors doesn't go by it.
  CachePolicy plain;
  EXPECT_TRUE(files.lookup(path, plain));
  advance(31'000);
  EXPECT_EQ(get(path), "one");
}

TEST_F(FileLookupTest, OpenFileCacheMinUses) {
  policy.enabled = true;
  policy.uses_min = 3;
  policy.entries_max = 100;
  const std::string path = directory.write("big", std::string(100'000, 'x'));
  EXPECT_TRUE(files.lookup(path, policy)->file);
  EXPECT_EQ(files.descriptors(), 0u);
  EXPECT_TRUE(files.lookup(path, policy)->file);
  EXPECT_EQ(files.descriptors(), 0u);
  EXPECT_TRUE(files.lookup(path, policy)->file);
  EXPECT_EQ(files.descriptors(), 1u);
}

TEST_F(FileLookupTest, OpenFileCacheMaxLeavesOtherEntriesAlone) {
  const std::string plain = directory.write("plain", "x");
  advance(5000);
  EXPECT_EQ(get(plain), "x");
  policy.enabled = true;
  policy.entries_max = 2;
  for (const char* name : {"a", "b", "c", "d"}) {
    const std::string path = directory.write(name, name);
    advance(5000);
    EXPECT_EQ(get(path), name);
  }
  EXPECT_EQ(files.entries(), 3u);
}

TEST(FileLookupLimits, ContentIsBounded) {
  test::TempDir directory;
  Clock clock;
  FileLookup::Limits limits;
  limits.content_total_bytes = 10'000;
  FileLookup files(clock, limits);
  const CachePolicy policy;
  for (int i = 0; i < 10; ++i) {
    const std::string path = directory.write(std::to_string(i), std::string(3000, 'x'));
    clock.set(clock.now_ms() + 5000, clock.wall_us() + 5'000'000);
    ASSERT_TRUE(files.lookup(path, policy)->content);
    EXPECT_LE(files.content_bytes(), limits.content_total_bytes);
  }
  EXPECT_EQ(files.entries(), 3u);  // 256 bytes and a path beside each 3000.
  // The youngest stayed.
  ASSERT_EQ(::unlink(directory.path("9").c_str()), 0);
  EXPECT_FALSE(files.lookup(directory.path("9"), policy));
  EXPECT_EQ(files.entries(), 2u);
}

TEST(FileLookupLimits, DescriptorsAreBounded) {
  test::TempDir directory;
  Clock clock;
  FileLookup::Limits limits;
  limits.descriptors = 2;
  FileLookup files(clock, limits);
  for (const char* name : {"a", "b", "c"}) {
    const std::string path = directory.write(name, std::string(70'000, 'x'));
    EXPECT_TRUE(files.lookup(path, CachePolicy())->file);
  }
  EXPECT_EQ(files.descriptors(), 2u);
  EXPECT_EQ(files.entries(), 2u);
}

TEST_F(FileLookupTest, IdleDescriptorsAreClosed) {
  const std::string big = directory.write("big", std::string(70'000, 'x'));
  const std::string small = directory.write("small", "x");
  advance(5000);
  EXPECT_TRUE(files.lookup(big, policy));
  EXPECT_TRUE(files.lookup(small, policy));
  advance(19'000);
  files.drop_idle();
  EXPECT_EQ(files.descriptors(), 1u);
  advance(1'000);
  files.drop_idle();
  EXPECT_EQ(files.descriptors(), 0u);
  EXPECT_EQ(files.entries(), 1u);
  advance(600'000);
  files.drop_idle();
  EXPECT_EQ(files.entries(), 0u);
  EXPECT_EQ(files.content_bytes(), 0u);
}

TEST_F(FileLookupTest, OldContentIsReadAgain) {
  const std::string path = directory.write("a.txt", "x");
  advance(5000);
  const auto first = files.lookup(path, policy);
  advance(61'000);
  const auto second = files.lookup(path, policy);
  ASSERT_TRUE(first->content);
  ASSERT_TRUE(second->content);
  EXPECT_NE(first->content.get(), second->content.get());
}

}  // namespace
}  // namespace corehttpd::assets
