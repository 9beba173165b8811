#include "upstream/response_spool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "corehttpd/io/sim_loop.h"

namespace corehttpd::upstream {
namespace {

using http::Forms;
using http::Next;

class Spool : public testing::Test, public ResponseSpool::Owner {
 protected:
  void on_spool_ready() override { ++ready; }
  void on_spool_room() override { ++room; }
  void on_spool_to_file() override { ++to_file; }
  void on_spool_file_error(const char*, int errno_value) override { file_error = errno_value; }
  void on_spool_cancelled() override { ++cancelled; }

  ~Spool() override {
    spool.reset();
    EXPECT_TRUE(loop.run_until_quiet());
    EXPECT_EQ(loop.blocks().in_use(), 0u);
  }
  void configure(std::uint64_t memory, std::uint64_t file,
                 std::optional<std::uint64_t> expected = std::nullopt,
                 std::string_view directory = "/tmp") {
    spool->configure({memory, file, directory}, expected);
  }
  ResponseSpool::Append append(std::string_view text) {
    return spool->append(std::as_bytes(std::span(text)));
  }
  // Reads what is there; file segments are read from their files.
  std::string read(std::size_t bytes_max = 1 << 20, Forms forms = Forms::kMemory) {
    std::string text;
    for (;;) {
      std::array<Segment, 4> segments;
      const auto outcome = spool->read(segments, bytes_max, forms);
      if (!outcome) return text + "<error>";
      std::size_t total = 0;
      for (std::uint32_t i = 0; i < outcome->segments; ++i) {
        const Segment& segment = segments[i];
        total += segment.length();
        if (segment.in_memory()) {
          text.append(segment.view());
          continue;
        }
        ++file_segments;
        std::string part(segment.length(), '\0');
        EXPECT_EQ(::pread(segment.fd(), part.data(), part.size(),
                          static_cast<off_t>(segment.file_offset())),
                  static_cast<ssize_t>(part.size()));
        text += part;
      }
      EXPECT_LE(total, bytes_max);
      if (outcome->next == Next::kEnd) return text + "<end>";
      if (outcome->next == Next::kBlocked) return text;
    }
  }
  void settle() { EXPECT_TRUE(loop.run_until_blocked()); }
  static std::string numbers(std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += std::to_string(text.size()) + ".";
    return text;
  }

  io::SimLoop loop{io::SimOptions{.seed = 3}};
  std::optional<ResponseSpool> spool{std::in_place, loop, *this};
  int ready = 0, room = 0, to_file = 0, cancelled = 0, file_error = 0, file_segments = 0;
};

TEST_F(Spool, MemoryInOrderThenTheEnd) {
  configure(1000, 0);
  append("ab");
  append("cd");
  EXPECT_EQ(read(3), "abcd");
  append("ef");
  EXPECT_EQ(ready, 1);  // Only a reader that was told to wait is woken.
  append("gh");
  EXPECT_EQ(ready, 1);
  EXPECT_TRUE(spool->finish());
  EXPECT_EQ(read(), "efgh<end>");
  EXPECT_TRUE(spool->delivered());
  EXPECT_EQ(spool->bytes_total(), 8u);
}

TEST_F(Spool, AnErrorComesAfterWhatIsHere) {
  configure(1000, 0);
  append("ab");
  spool->fail({Code::kClosed, Party::kOrigin, 0, "test"});
  EXPECT_EQ(read(), "ab<error>");
}

TEST_F(Spool, ExpectedLengthIsEnforced) {
  configure(1000, 0, 5);
  EXPECT_EQ(append("ab"), ResponseSpool::Append::kTaken);
  EXPECT_EQ(append("cde"), ResponseSpool::Append::kComplete);
  EXPECT_EQ(append("f"), ResponseSpool::Append::kExcess);
  EXPECT_EQ(read(), "abcde<end>");
  EXPECT_TRUE(spool->finish());
}

TEST_F(Spool, AShortBodyFails) {
  configure(1000, 0, 5);
  append("ab");
  EXPECT_FALSE(spool->finish());
  EXPECT_EQ(read(), "ab<error>");
}

TEST_F(Spool, NothingExpectedIsTheEnd) {
  configure(1000, 0, 0);
  EXPECT_EQ(read(), "<end>");
}

TEST_F(Spool, WithoutAFileItIsFullAtItsLimit) {
  configure(100, 0);
  append(std::string(99, 'x'));
  EXPECT_FALSE(spool->full());
  append("x");
  EXPECT_TRUE(spool->full());
  append("yy");  // Kept all the same.
  std::array<Segment, 1> one;
  ASSERT_TRUE(spool->read(one, 40, Forms::kMemory));
  EXPECT_EQ(room, 0);
  ASSERT_TRUE(spool->read(one, 40, Forms::kMemory));
  EXPECT_EQ(room, 1);
  EXPECT_FALSE(spool->full());
}

TEST_F(Spool, WhatDoesNotFitGoesToAFileAndComesBackInOrder) {
  for (Forms forms : {Forms::kMemory, Forms::kFiles}) {
    spool.emplace(loop, *this);
    configure(20'000, 1 << 20);
    const std::string text = numbers(400'000);
    for (std::size_t at = 0; at < text.size(); at += 7000) {
      append(std::string_view(text).substr(at, 7000));
      settle();
      EXPECT_FALSE(spool->full());
    }
    spool->finish();
    std::string got;
    while (!got.ends_with("<end>")) {
      got += read(9000, forms);
      settle();
    }
    EXPECT_TRUE(got == text + "<end>");
  }
  EXPECT_EQ(to_file, 2);
  EXPECT_GT(file_segments, 0);
}

TEST_F(Spool, AReaderBesideTheWriterLosesNothing) {
  configure(20'000, 1 << 20);
  const std::string text = numbers(2'000'000);
  std::string got;
  std::size_t at = 0;
  while (!got.ends_with("<end>")) {
    if (at < text.size()) {
      const std::size_t now = std::min<std::size_t>(1 + loop.random(30'000), text.size() - at);
      append(std::string_view(text).substr(at, now));
      at += now;
      if (at == text.size()) spool->finish();
    }
    if (loop.random(3) == 0) loop.run_once();
    const auto forms = loop.random(2) == 0 ? Forms::kMemory : Forms::kFiles;
    if (loop.random(3) != 0) {
      std::array<Segment, 2> segments;
      const auto outcome = spool->read(segments, 1 + loop.random(25'000), forms);
      ASSERT_TRUE(outcome);
      for (std::uint32_t i = 0; i < outcome->segments; ++i) {
        std::string part(segments[i].length(), '\0');
        if (segments[i].in_memory()) {
          part = segments[i].view();
        } else {
          ASSERT_EQ(::pread(segments[i].fd(), part.data(), part.size(),
                            static_cast<off_t>(segments[i].file_offset())),
                    static_cast<ssize_t>(part.size()));
        }
        got += part;
      }
      if (outcome->next == Next::kEnd) got += "<end>";
    }
  }
  EXPECT_TRUE(got == text + "<end>");
  EXPECT_GT(to_file, 0);
}

TEST_F(Spool, TheFileHasALimitToo) {
  configure(20'000, 50'000);
  const std::string chunk(10'000, 'x');
  std::size_t total = 0;
  while (!spool->full() && total < 10'000'000) {
    append(chunk);
    total += chunk.size();
    settle();
  }
  EXPECT_TRUE(spool->full());
  EXPECT_LT(total, 110'000u);  // Both limits and the block that was under way.
  EXPECT_EQ(read().size(), total);
  EXPECT_FALSE(spool->full());
  EXPECT_EQ(room, 1);
}

TEST_F(Spool, WithoutADirectoryItGoesOnInMemory) {
  configure(20'000, 1 << 20, std::nullopt, "/nonexistent");
  append(std::string(30'000, 'x'));
  settle();
  EXPECT_EQ(file_error, ENOENT);
  EXPECT_TRUE(spool->full());
  spool->finish();
  EXPECT_EQ(read(), std::string(30'000, 'x') + "<end>");
  EXPECT_EQ(to_file, 1);
}

TEST_F(Spool, CancelledItHoldsNothing) {
  configure(20'000, 1 << 20);
  append(std::string(200'000, 'x'));
  spool->cancel();
  spool->cancel();
  EXPECT_EQ(cancelled, 1);
  EXPECT_FALSE(spool->full());
  append(std::string(200'000, 'x'));
  EXPECT_FALSE(spool->full());
  settle();
  EXPECT_EQ(loop.blocks().in_use(), 0u);
}

}  // namespace
}  // namespace corehttpd::upstream
