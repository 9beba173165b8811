#include "proto/h2/memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace corehttpd::h2 {
namespace {

constexpr std::size_t kPage = 4096;

#if defined(__has_feature)
#define CORE_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define CORE_ADDRESS_SANITIZER 1
#else
#define CORE_ADDRESS_SANITIZER 0
#endif

// Each piece but a table is led by a word that says where it belongs. (A frame buffer's may be lost
// with its page: it is known by its address.)
struct Header {
  std::size_t kind;
};
constexpr std::size_t kAlignment = alignof(std::max_align_t);
constexpr std::size_t kFromC = 1'000;
constexpr std::size_t kPaged = 2'000;
// And its size.
constexpr std::size_t kLasting = 1'000'000;

// Pieces by size, in steps of 16 bytes, those that are not used in lists. A worker is one process
// with one thread, so one set serves all its connections.
class Pieces {
 public:
  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kLargest = 512;

  Header* take(std::size_t size) {
    const std::size_t kind = (size + kStep - 1) / kStep;
    List& list = lists_[kind];
    if (list.first != nullptr) {
      Node* node = list.first;
      list.first = node->next;
      --list.count;
      return new (node) Header{kind};
    }
    void* memory = std::malloc(kind * kStep + sizeof(Header));
    return memory == nullptr ? nullptr : new (memory) Header{kind};
  }
  void give_back(Header* header) {
    List& list = lists_[header->kind];
    if (list.count >= kKeptMax) return std::free(header);
    list.first = new (header) Node{list.first};
    ++list.count;
  }

 private:
  // Under a sanitizer none: it is to see each piece's end.
  static constexpr std::size_t kKeptMax = CORE_ADDRESS_SANITIZER ? 0 : 1024;
  struct Node {
    Node* next;
  };
  struct List {
    Node* first = nullptr;
    std::size_t count = 0;
  };
  std::array<List, kLargest / kStep + 1> lists_;
};

// Runs of whole pages of one size, cut from larger mappings, which stay.
class Runs {
 public:
  explicit Runs(std::size_t bytes) : bytes_(bytes), free_(*new std::vector<void*>) {}

  void* take() {
    if (free_.empty() && !map_more()) return nullptr;
    void* run = free_.back();
    free_.pop_back();
    return run;
  }
  void give_back(void* run) {
    if (free_.size() >= kWarmMax) discard(run);
    free_.push_back(run);
  }
  void discard(void* run) const { ::madvise(run, bytes_, MADV_DONTNEED); }

 private:
  static constexpr std::size_t kRunsPerMapping = 64;
  // Of those that are not in use, so many keep their pages for the next session.
  static constexpr std::size_t kWarmMax = 32;

  bool map_more() {
    void* mapping = ::mmap(nullptr, bytes_ * kRunsPerMapping, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return false;
    for (std::size_t i = kRunsPerMapping; i-- > 0;)
      free_.push_back(static_cast<std::byte*>(mapping) + i * bytes_);
    return true;
  }

  std::size_t bytes_;
  std::vector<void*>& free_;  // Never destroyed: sessions may end with the process.
};

Pieces pieces;
// A frame buffer: 16,384 bytes, a frame's header, a byte of padding's length, and our word.
constexpr std::size_t kFrameBufferMin = 16 * 1024;
constexpr std::size_t kFrameBufferMax = 5 * kPage - sizeof(Header);
Runs frame_buffers(5 * kPage);
// The table of streams, as it is before there are many: on a page of its own, with no word in
// front, so that it may be all zeroes.
constexpr std::size_t kTableBytes = kPage;
Runs tables(kPage);
// The session and the tables of its two HPACK contexts: 5,000 bytes.
constexpr std::size_t kLastingBytes = 2 * kPage;
Runs lasting_runs(kLastingBytes);

bool all_zero(const void* page) {
  const auto* words = static_cast<const std::uint64_t*>(page);
  return std::all_of(words, words + kPage / sizeof(*words), [](auto word) { return word == 0; });
}

}  // namespace

struct MemoryCallbacks {
  static Memory& of(void* user_data) { return *static_cast<Memory*>(user_data); }

  static void* allocate(std::size_t size, void* user_data) {
    Memory& memory = of(user_data);
    if (size == kTableBytes && memory.table_ == nullptr) return memory.table_ = tables.take();
    Header* header = nullptr;
    if (size <= Pieces::kLargest) {
      header = pieces.take(size);
    } else if (size >= kFrameBufferMin && size <= kFrameBufferMax &&
               memory.frame_buffer_ == nullptr) {
      memory.frame_buffer_ = frame_buffers.take();
      if (memory.frame_buffer_ != nullptr) header = new (memory.frame_buffer_) Header{kPaged};
    } else if (void* lasting = memory.take_lasting(size); lasting != nullptr) {
      header = new (lasting) Header{kLasting + size};
    } else if (void* plain = std::malloc(size + sizeof(Header)); plain != nullptr) {
      header = new (plain) Header{kFromC};
    }
    return header == nullptr ? nullptr : header + 1;
  }

  static void release(void* piece, void* user_data) {
    if (piece == nullptr) return;
    Memory& memory = of(user_data);
    if (piece == memory.table_) {
      tables.give_back(std::exchange(memory.table_, nullptr));
      return;
    }
    auto* header = static_cast<Header*>(piece) - 1;
    if (header == memory.frame_buffer_) {
      frame_buffers.give_back(std::exchange(memory.frame_buffer_, nullptr));
    } else if (header->kind == kFromC) {
      std::free(header);
    } else if (header->kind < kLasting) {  // The place of what lasts is not used again.
      pieces.give_back(header);
    }
  }

  static void* allocate_zeroed(std::size_t count, std::size_t size, void* user_data) {
    void* piece = allocate(count * size, user_data);
    if (piece != nullptr) std::memset(piece, 0, count * size);
    return piece;
  }

  static void* resize(void* piece, std::size_t size, void* user_data) {
    void* larger = allocate(size, user_data);
    if (piece == nullptr || larger == nullptr) return larger;
    std::memcpy(larger, piece, std::min(size, capacity(piece, of(user_data))));
    release(piece, user_data);
    return larger;
  }

  static std::size_t capacity(void* piece, const Memory& memory) {
    if (piece == memory.table_) return kTableBytes;
    auto* header = static_cast<Header*>(piece) - 1;
    if (header == memory.frame_buffer_) return kFrameBufferMax;
    if (header->kind == kFromC) return malloc_usable_size(header) - sizeof(Header);
    if (header->kind >= kLasting) return header->kind - kLasting;
    return header->kind * Pieces::kStep;
  }
};

Memory::Memory()
    : library_{.mem_user_data = this,
               .malloc = MemoryCallbacks::allocate,
               .free = MemoryCallbacks::release,
               .calloc = MemoryCallbacks::allocate_zeroed,
               .realloc = MemoryCallbacks::resize} {}

Memory::~Memory() {
  std::free(packed_);
  if (lasting_ != nullptr) lasting_runs.give_back(lasting_);
}

void Memory::rest() {
  if (table_ != nullptr && all_zero(table_)) tables.discard(table_);
  if (frame_buffer_ != nullptr) frame_buffers.discard(frame_buffer_);
  if (lasting_ != nullptr && packed_ == nullptr) pack();
}

// nullptr: there is no room, or the piece is not for the session's life.
void* Memory::take_lasting(std::size_t size) {
  const std::size_t whole = (size + sizeof(Header) + kAlignment - 1) / kAlignment * kAlignment;
  if (sealed_ || whole > kLastingBytes - lasting_bytes_) return nullptr;
  if (lasting_ == nullptr) {
    // So that what the library gets is aligned behind our word.
    lasting_bytes_ = kAlignment - sizeof(Header);
    lasting_ = static_cast<std::byte*>(lasting_runs.take());
    if (lasting_ == nullptr) return nullptr;
  }
  void* piece = lasting_ + lasting_bytes_;
  lasting_bytes_ += static_cast<std::uint32_t>(whole);
  return piece;
}

// A bit for each word says whether it is kept; those that are follow.
void Memory::pack() {
  const std::size_t count = lasting_bytes_ / sizeof(std::uint64_t);
  const std::size_t maps = (count + 63) / 64;
  std::array<std::uint64_t, kLastingBytes / sizeof(std::uint64_t) * 65 / 64> packed{};
  std::size_t used = maps;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, lasting_ + i * sizeof(word), sizeof(word));
    if (word == 0) continue;
    packed[i / 64] |= std::uint64_t{1} << (i % 64);
    packed[used++] = word;
  }
  packed_ = static_cast<std::uint64_t*>(std::malloc(used * sizeof(std::uint64_t)));
  if (packed_ == nullptr) return;
  std::copy_n(packed.begin(), used, packed_);
  lasting_runs.discard(lasting_);
}

void Memory::unpack() {
  const std::size_t count = lasting_bytes_ / sizeof(std::uint64_t);
  const std::uint64_t* next = packed_ + (count + 63) / 64;
  for (std::size_t i = 0; i < count; ++i) {
    if ((packed_[i / 64] >> (i % 64) & 1) == 0) continue;
    std::memcpy(lasting_ + i * sizeof(*next), next, sizeof(*next));
    ++next;
  }
  std::free(std::exchange(packed_, nullptr));
}

}  // namespace corehttpd::h2
