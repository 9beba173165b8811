#include <fmt/format.h>
#include <gtest/gtest.h>

#include "proto/h2/budget.h"
#include "proto/h2/frame_scanner.h"
#include "proto/h2/memory.h"
#include "proto/h2/priority.h"
#include "proto/h2/segment_queue.h"

namespace corehttpd::h2 {
namespace {

TEST(H2Budget, TimeAndWorkGiveBack) {
  Budget budget(10, 2);
  EXPECT_TRUE(budget.spend(1000, 10));
  EXPECT_FALSE(budget.spend(1000, 1));
  Budget other(10, 2);
  EXPECT_TRUE(other.spend(1000, 10));
  EXPECT_TRUE(other.spend(1500, 1));   // Half a second gave one.
  EXPECT_FALSE(other.spend(1999, 1));  // 0.998 of a token is not one.
  Budget third(10, 0);
  third.give_back(5);  // Never more than its capacity.
  EXPECT_TRUE(third.spend(0, 10));
  third.give_back(1);
  EXPECT_TRUE(third.spend(0, 1));
  EXPECT_FALSE(third.spend(0, 1));
}

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const SegmentQueue& queue) {
  iovec vectors[16];
  const std::size_t count = queue.gather(vectors);
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text.append(static_cast<char*>(vectors[i].iov_base), vectors[i].iov_len);
  return text;
}

TEST(H2Memory, RestGivesBackWhatNobodyReads) {
  Memory memory;
  const nghttp2_mem& library = *memory.library();
  auto* frame = static_cast<char*>(library.malloc(16 * 1024 + 10, library.mem_user_data));
  auto* table = static_cast<char*>(library.calloc(256, 16, library.mem_user_data));
  std::fill_n(frame, 16 * 1024 + 10, 'x');
  table[4000] = 'x';
  memory.rest();
  EXPECT_EQ(frame[5], 0);  // Its page is gone, and a fresh one is there.
  EXPECT_EQ(table[4000], 'x');
  std::fill_n(frame, 16 * 1024 + 10, 'y');
  EXPECT_EQ(frame[16 * 1024 + 9], 'y');
  library.free(frame, library.mem_user_data);
  library.free(table, library.mem_user_data);
}

TEST(H2Memory, WhatLastsIsPackedWhileItRests) {
  Memory memory;
  const nghttp2_mem& library = *memory.library();
  auto* session = static_cast<char*>(library.calloc(1, 2920, library.mem_user_data));
  auto* table = static_cast<char*>(library.malloc(1024, library.mem_user_data));
  memory.seal();
  auto* later = static_cast<char*>(library.malloc(1024, library.mem_user_data));
  std::fill_n(table, 1024, 't');
  std::fill_n(later, 1024, 'l');
  session[0] = 'a';
  session[1777] = 'b';
  session[2919] = 'c';
  memory.rest();
  EXPECT_EQ(session[1777], 0);  // The page has been given back.
  EXPECT_EQ(std::count(later, later + 1024, 'l'), 1024);
  memory.wake();
  EXPECT_EQ(session[0], 'a');
  EXPECT_EQ(session[1777], 'b');
  EXPECT_EQ(session[2919], 'c');
  EXPECT_EQ(std::count(session, session + 2920, 0), 2920 - 3);
  EXPECT_EQ(std::count(table, table + 1024, 't'), 1024);
  memory.wake();  // Nothing more.
  table[5] = 'u';
  memory.rest();
  memory.wake();
  EXPECT_EQ(table[5], 'u');
  table = static_cast<char*>(library.realloc(table, 3000, library.mem_user_data));
  EXPECT_EQ(std::count(table, table + 1024, 't'), 1023);
  for (char* piece : {session, table, later}) library.free(piece, library.mem_user_data);
}

TEST(H2Memory, PiecesOfAllSizesKeepTheirContent) {
  Memory memory;
  const nghttp2_mem& library = *memory.library();
  for (std::size_t size :
       {1, 16, 17, 511, 512, 513, 4096, 4097, 16384, 16394, 20472, 20473, 70000}) {
    auto* piece = static_cast<char*>(library.malloc(size, library.mem_user_data));
    std::fill_n(piece, size, 'a');
    // Two of a kind at once, and one that grows to another kind.
    auto* other = static_cast<char*>(library.malloc(size, library.mem_user_data));
    std::fill_n(other, size, 'b');
    piece = static_cast<char*>(library.realloc(piece, size + 5000, library.mem_user_data));
    std::fill_n(piece + size, 5000, 'c');
    EXPECT_EQ(std::count(piece, piece + size, 'a'), static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(std::count(other, other + size, 'b'), static_cast<std::ptrdiff_t>(size));
    library.free(piece, library.mem_user_data);
    library.free(other, library.mem_user_data);
  }
  library.free(nullptr, library.mem_user_data);
}

TEST(H2SegmentQueue, SmallPiecesShareAVector) {
  BlockPool pool;
  SegmentQueue queue(pool);
  EXPECT_TRUE(queue.append_copy(bytes("abc")));
  EXPECT_TRUE(queue.append(Segment::from_static("def")));
  EXPECT_EQ(queue.segments(), 1u);
  const std::string large(2000, 'L');
  EXPECT_TRUE(queue.append(Segment::from_static(large)));
  EXPECT_TRUE(queue.append_copy(bytes("ghi")));
  EXPECT_EQ(queue.segments(), 3u);
  EXPECT_EQ(text_of(queue), "abcdef" + large + "ghi");
  queue.consume(5);
  EXPECT_EQ(text_of(queue), "f" + large + "ghi");
  queue.consume(1 + 1999);
  EXPECT_EQ(text_of(queue), "Lghi");
  EXPECT_EQ(queue.consumed(), 2005u);
  queue.consume(4);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(H2SegmentQueue, GoesOnInTheNextBlock) {
  BlockPool pool;
  SegmentQueue queue(pool);
  std::string all;
  for (int i = 0; i < 500; ++i) {
    const std::string piece(100, static_cast<char>('a' + i % 26));
    EXPECT_TRUE(queue.append_copy(bytes(piece)));
    all += piece;
    if (i % 3 == 0) {
      queue.consume(37);
      all.erase(0, 37);
    }
  }
  EXPECT_EQ(text_of(queue), all);
  EXPECT_EQ(queue.bytes(), all.size());
}

TEST(H2SegmentQueue, SpentPool) {
  BlockPool pool(1);
  SegmentQueue queue(pool);
  EXPECT_TRUE(queue.append_copy(bytes(std::string(BlockPool::kBlockBytes, 'x'))));
  EXPECT_FALSE(queue.append_copy(bytes("y")));
}

TEST(H2Priority, FieldsAreRead) {
  struct Row {
    const char* value;
    int urgency;
    bool incremental;
  };
  for (const Row& row :
       {Row{"", 3, false}, Row{"u=0", 0, false}, Row{"u=7, i", 7, true}, Row{"i,u=1", 1, true},
        Row{"u=5;a=1 , i;x", 5, true}, Row{"i=?0", 3, false}, Row{"i=?1", 3, true},
        Row{"u=8", 3, false}, Row{"u=-1, i=1", 3, false}, Row{"u=2, u=4", 4, false},
        Row{"x=\"a\", u=6", 6, false}, Row{",,u=1,", 1, false}, Row{"U=1", 3, false}}) {
    const Priority priority = parse_priority(row.value);
    EXPECT_EQ(priority.urgency, row.urgency) << row.value;
    EXPECT_EQ(priority.incremental, row.incremental) << row.value;
  }
}

// The same frames are pointed out wherever the bytes are cut.
TEST(H2FrameScanner, AnySplit) {
  const auto frame = [](char type, std::string payload, char stream) {
    return std::string{0, 0, static_cast<char>(payload.size()), type, 0, 0, 0, 0, stream} + payload;
  };
  const std::string bytes = "skip" + frame(NGHTTP2_HEADERS, "abc", 1) +
                            frame(NGHTTP2_DATA, "defg", 1) +
                            frame(NGHTTP2_PRIORITY, std::string("\0\0\0\5\1", 5), 3) +
                            frame(NGHTTP2_DATA, "", 5) + frame(NGHTTP2_RST_STREAM, "abcd", 5) +
                            frame(NGHTTP2_PRIORITY, "abc", 7) + frame(NGHTTP2_PING, "12345678", 0);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameScanner scanner(4);
    std::string seen;
    for (const std::string_view part :
         {std::string_view(bytes).substr(0, cut), std::string_view(bytes).substr(cut)}) {
      std::size_t at = 0;
      while (const auto* found = scanner.next(std::as_bytes(std::span(part)), at)) {
        seen += fmt::format("{}:{}:{}:{} ", found->type, found->stream_id, found->length,
                            found->parent_id);
      }
      EXPECT_EQ(at, part.size());
    }
    EXPECT_EQ(seen, "0:1:4:0 2:3:5:5 0:5:0:0 2:7:3:0 6:0:8:0 ") << cut;
  }
}

}  // namespace
}  // namespace corehttpd::h2
