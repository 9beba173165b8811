#include <gtest/gtest.h>

#include "proto/h2/budget.h"
#include "proto/h2/memory.h"
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

}  // namespace
}  // namespace corehttpd::h2
