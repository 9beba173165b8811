#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "corehttpd/base/log.h"
#include "corehttpd/tls/replay_guard.h"
#include "support/temp_dir.h"
#include "tls/path_pattern.h"
#include "tls/watched_files.h"
#include "unit/tls/stream_fixture.h"

namespace corehttpd::tls {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Site;

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(WatchedFiles, ChangesCountWhenTheyAreOver) {
  test::TempDir dir;
  const std::string path = dir.path() + "/x";
  write(path, "1");
  WatchedFiles files;
  files.add(path);
  files.note();
  using State = WatchedFiles::State;
  EXPECT_EQ(files.look(0), State::kSame);
  write(path, "22");
  EXPECT_EQ(files.look(1000), State::kUnsettled);
  write(path, "333");
  EXPECT_EQ(files.look(1000 + WatchedFiles::kQuiet), State::kUnsettled);
  EXPECT_EQ(files.look(1000 + 2 * WatchedFiles::kQuiet), State::kChanged);
  files.note();
  EXPECT_EQ(files.look(2000), State::kSame);
}

TEST(WatchedFiles, AFaultIsToldOnceAndLate) {
  test::TempDir dir;
  WatchedFiles files;
  files.add(dir.path() + "/x");
  files.note();
  using State = WatchedFiles::State;
  write(dir.path() + "/x", "1");
  EXPECT_EQ(files.look(0), State::kUnsettled);
  EXPECT_EQ(files.look(WatchedFiles::kQuiet), State::kChanged);
  files.note();
  files.set_problem("no good");
  EXPECT_EQ(files.look(WatchedFiles::kPatience - 1), State::kUnsettled);
  EXPECT_EQ(files.look(WatchedFiles::kPatience), State::kFailed);
  EXPECT_EQ(files.take_problem(), "no good");
  EXPECT_EQ(files.look(2 * WatchedFiles::kPatience), State::kSame);
}

TEST(WatchedFiles, LinksAreFollowed) {
  test::TempDir dir;
  ::mkdir((dir.path() + "/a").c_str(), 0755);
  write(dir.path() + "/a/1", "1");
  write(dir.path() + "/a/2", "2");
  const std::string link = dir.path() + "/link";
  ASSERT_EQ(::symlink("a/1", link.c_str()), 0);
  WatchedFiles files;
  files.add(link);
  files.note();
  std::vector<std::string> folders;
  files.list_folders(folders);
  EXPECT_THAT(folders, ElementsAre(dir.path(), dir.path() + "/a"));
  ASSERT_EQ(::unlink(link.c_str()), 0);
  ASSERT_EQ(::symlink("a/2", link.c_str()), 0);
  EXPECT_EQ(files.look(0), WatchedFiles::State::kUnsettled);
}

TEST(PathPattern, LeadsWhereNamesAre) {
  test::TempDir dir;
  for (const char* name :
       {"a.test.pem", "b.test.pem", "UPPER.pem", ".pem", "..pem", "other.key", "c d.pem"})
    write(dir.path() + "/" + name, "");
  ::mkdir((dir.path() + "/x.test").c_str(), 0755);
  EXPECT_THAT(list_names(dir.path() + "/$ssl_server_name.pem"), ElementsAre("a.test", "b.test"));
  EXPECT_THAT(list_names(dir.path() + "/x${ssl_server_name}t/$ssl_server_name.pem"),
              ElementsAre());  // ".tes" is no name.
  EXPECT_THAT(list_names("/nonexistent/$ssl_server_name"), IsEmpty());
  EXPECT_EQ(expand_pattern("/l/${ssl_server_name}/c-$ssl_server_name.pem", "a.b"),
            "/l/a.b/c-a.b.pem");
  EXPECT_EQ(pattern_folder("/l/x$ssl_server_name/c.pem"), "/l/");
  EXPECT_EQ(check_pattern("/l/$ssl_server_name"), "");
  EXPECT_THAT(check_pattern("/l/$host"), HasSubstr("\"$host\" is not known"));
  EXPECT_NE(check_pattern("/l/${ssl_server_name"), "");
  EXPECT_NE(check_pattern("data:$ssl_server_name"), "");
  for (const char* bad : {"", ".", "..", "a/b", "../a", "A", "a\nb", "*"})
    EXPECT_FALSE(is_safe_name(bad)) << bad;
}

TEST(ReplayGuard, AnsweredOnceEach) {
  std::vector<std::uint64_t> memory(ReplayGuard::kSlots);
  ReplayGuard guard(std::as_writable_bytes(std::span(memory)));
  ReplayGuard other(std::as_writable_bytes(std::span(memory)));  // Of another process.
  std::array<unsigned char, 32> random{};
  EXPECT_TRUE(guard.first(random, 0));
  EXPECT_FALSE(guard.first(random, 0));
  EXPECT_FALSE(other.first(random, ReplayGuard::kSeconds - 1));
  random[25] = 1;
  EXPECT_TRUE(other.first(random, 1));
  EXPECT_FALSE(guard.first(random, 1));
  EXPECT_TRUE(guard.first(random, 1 + ReplayGuard::kSeconds));
  EXPECT_FALSE(guard.first({}, 0));
}

// Lines of the process's log.
struct Lines final : LogSink {
  Lines() {
    target.sink = this;
    target.level = LogLevel::kNotice;
    set_process_log(&target);
  }
  ~Lines() { set_process_log(nullptr); }
  void write(LogLevel level, std::string_view line) override {
    all.push_back(std::string(to_string(level)) + ": " + std::string(line));
  }
  LogTarget target;
  std::vector<std::string> all;
};

TEST(Store, ExpiryIsAnnouncedInTime) {
  Site site(false);  // Good for a day from now.
  const std::time_t now = std::time(nullptr);
  constexpr Milliseconds kDay = 86'400'000;
  Lines lines;
  site.store->announce_expiry(now + 60, 0);
  EXPECT_THAT(lines.all, IsEmpty());
  site.store->announce_expiry(now + 20 * 3600 + 60, 1);
  ASSERT_EQ(lines.all.size(), 1u);
  EXPECT_THAT(lines.all[0],
              HasSubstr("certificate \"data:…\" of site \"0.0.0.0:443\" expires in 3 hours: 2"));
  EXPECT_THAT(lines.all[0], HasSubstr("warn"));
  site.store->announce_expiry(now + 20 * 3600 + 60, kDay - 1);
  EXPECT_EQ(lines.all.size(), 1u);  // Once a day.
  site.store->announce_expiry(now + 90'000, kDay);
  ASSERT_EQ(lines.all.size(), 2u);  // A new state at once.
  EXPECT_THAT(lines.all[1], HasSubstr("has expired: "));
  EXPECT_THAT(lines.all[1], HasSubstr("error"));
  site.store->announce_expiry(now + 180'000, 2 * kDay);
  EXPECT_EQ(lines.all.size(), 3u);
  site.store->announce_expiry(now - 7200, 3 * kDay);
  ASSERT_EQ(lines.all.size(), 4u);
  EXPECT_THAT(lines.all[3], HasSubstr("is not good before "));
}

TEST(Store, WhatIsUnpackedIsWhatWasPacked) {
  test::TempDir dir;
  const auto put = [&](EVP_PKEY* key) {
    const testing::Pair pair = testing::make_pair(key);
    write(dir.path() + "/c.pem", pair.certificate);
    write(dir.path() + "/k.pem", pair.key);
  };
  const std::string more = "server { listen 444 ssl; server_name f.test; ssl_certificate " +
                           dir.path() + "/c.pem; ssl_certificate_key " + dir.path() + "/k.pem; }";
  put(EVP_EC_gen("P-256"));
  Site master(false, more);
  Site worker(false, more);
  put(EVP_RSA_gen(3072));
  Lines lines;
  EXPECT_EQ(master.store->version(), 0u);
  EXPECT_TRUE(master.store->take_up_changes(0, master.configuration->sites()).unsettled);
  master.store->take_up_changes(WatchedFiles::kQuiet, master.configuration->sites());
  ASSERT_EQ(master.store->version(), 1u);
  EXPECT_THAT(lines.all, ElementsAre(HasSubstr("has changed and is taken up, good until ")));
  std::string bytes;
  EXPECT_EQ(master.store->pack(0, bytes), 1u);
  EXPECT_TRUE(worker.store->unpack(bytes));
  // What is cut off anywhere is refused, and harms nothing.
  for (std::size_t cut = 1; cut < bytes.size(); cut += 7)
    EXPECT_FALSE(worker.store->unpack(std::string_view(bytes).substr(0, cut))) << cut;
  std::string none;
  EXPECT_EQ(master.store->pack(1, none), 1u);
  EXPECT_THAT(none, IsEmpty());
  const auto expires = [](const Site& site) {
    for (const CertificateFacts& one : site.store->certificates())
      if (one.file.ends_with("/c.pem")) return one.expires;
    return std::time_t{0};
  };
  EXPECT_NE(expires(master), 0);
  EXPECT_EQ(expires(master), expires(worker));
}

}  // namespace
}  // namespace corehttpd::tls
