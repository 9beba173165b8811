// Against the simulated loop: writes are short, late and interleaved with everything else.
#include "handlers/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "corehttpd/io/sim_loop.h"

namespace corehttpd::handlers {
namespace {

class Folder {
 public:
  Folder() { EXPECT_NE(::mkdtemp(path_), nullptr); }
  ~Folder() {
    for (const std::string& name : names_) ::unlink(name.c_str());
    ::rmdir(path_);
  }
  int open(const std::string& name) {
    names_.push_back(std::string(path_) + "/" + name);
    return ::open(names_.back().c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  }
  // gzip or plain: zlib reads both.
  std::string read(const std::string& name) const {
    gzFile file = gzopen((std::string(path_) + "/" + name).c_str(), "rb");
    std::string text;
    char buffer[4096];
    int n = 0;
    while ((n = gzread(file, buffer, sizeof(buffer))) > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    EXPECT_EQ(n, 0) << name;
    EXPECT_EQ(gzclose(file), Z_OK) << name;
    return text;
  }

 private:
  char path_[32] = "/tmp/log_writer_XXXXXX";
  std::vector<std::string> names_;
};

void add(LogWriter& writer, int number) {
  std::string* line = writer.begin_line();
  ASSERT_NE(line, nullptr);
  line->append(std::to_string(number)).push_back('\n');
  writer.line_done();
}

class Writing : public testing::TestWithParam<LogWriterOptions> {};

// Every line arrives once, in order, whole, in the file that was current when it was logged or
// later.
TEST_P(Writing, NothingIsLostOverReopenings) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    Folder folder;
    io::SimLoop loop(io::SimOptions{.seed = seed});
    int files = 0, lines = 0;
    const int fd = folder.open("0");
    std::vector<int> before_reopen;
    {
      LogWriter writer(loop, "test.log", fd, GetParam());
      for (int step = 0; step < 300; ++step) {
        for (unsigned i = random() % 5; i > 0; --i) add(writer, lines++);
        if (random() % 40 == 0) {
          // One that overtakes another would leave a file empty, which is fine but proves little.
          for (int turn = 0; turn < 2000 && !writer.idle(); ++turn) loop.run_once();
          before_reopen.push_back(lines);
          writer.reopen(folder.open(std::to_string(++files)));
        }
        if (random() % 2 == 0) loop.run_once();
      }
      for (int turn = 0; turn < 5000 && !writer.idle(); ++turn) loop.run_once();
      writer.finish();
    }
    ::close(fd);
    std::string all, expected;
    for (int i = 0; i <= files; ++i) {
      const std::string text = folder.read(std::to_string(i));
      EXPECT_TRUE(text.empty() || text.back() == '\n');
      all += text;
      // What was logged before the i-th reopening is not in later files.
      if (i < files) {
        EXPECT_GE(std::count(all.begin(), all.end(), '\n'),
                  before_reopen[static_cast<std::size_t>(i)])
            << seed;
      }
    }
    for (int i = 0; i < lines; ++i) expected += std::to_string(i) + "\n";
    EXPECT_EQ(all, expected) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Writing,
                         testing::Values(LogWriterOptions{}, LogWriterOptions{64, 0, 0},
                                         LogWriterOptions{64, 5, 0}, LogWriterOptions{64, 0, 1},
                                         LogWriterOptions{200, 3, 9}));

// A new file on another disk ends the outage: what had to wait is written there.
TEST(LogWriter, AFullDiskAndAReopening) {
  Folder folder;
  io::SimLoop loop(io::SimOptions{});
  const int fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  {
    LogWriter writer(loop, "test.log", fd);
    for (int i = 0; i < 10; ++i) {
      add(writer, i);
      for (int turn = 0; turn < 20; ++turn) loop.run_once();
    }
    writer.reopen(folder.open("0"));
    for (int turn = 0; turn < 5000 && !writer.empty(); ++turn) loop.run_once();
    EXPECT_TRUE(writer.empty());
  }
  ::close(fd);
  EXPECT_EQ(folder.read("0"), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

TEST(LogWriter, WhatWaitsIsBounded) {
  Folder folder;
  io::SimLoop loop(io::SimOptions{});
  int fd = -1;
  std::uint64_t taken = 0;
  {
    LogWriter writer(loop, "test.log", -1);
    const std::string text(999, 'x');
    for (int i = 0; i < 10'000; ++i) {
      std::string* line = writer.begin_line();
      if (line == nullptr) continue;
      line->append(text).push_back('\n');
      writer.line_done();
      ++taken;
    }
    EXPECT_LE(taken * 1000, LogWriter::kPendingBytesMax + 1000);
    EXPECT_GT(taken * 1000, LogWriter::kPendingBytesMax - 1000);
    loop.run_once();
    writer.set_descriptor(fd = folder.open("0"));
    for (int turn = 0; turn < 5000 && !writer.empty(); ++turn) loop.run_once();
  }
  ::close(fd);
  EXPECT_EQ(folder.read("0").size(), taken * 1000);
}

TEST(LogWriter, DiscardCounts) {
  io::SimLoop loop(io::SimOptions{});
  LogWriter writer(loop, "test.log", -1);
  for (int i = 0; i < 7; ++i) add(writer, i);
  EXPECT_EQ(writer.discard(), 7u);
  EXPECT_TRUE(writer.empty());
}

}  // namespace
}  // namespace corehttpd::handlers
