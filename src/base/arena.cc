#include "corehttpd/base/arena.h"

#include <cstdlib>

#include "corehttpd/base/check.h"

namespace corehttpd {

Arena::Arena(std::span<std::byte> first, std::size_t chunk_bytes)
    : next_(first.data()),
      end_(first.data() + first.size()),
      first_(first.data()),
      first_bytes_(first.size()),
      chunk_bytes_(chunk_bytes) {}

void* Arena::allocate_slow(std::size_t bytes, std::size_t align) {
  // A request too large for a chunk gets one of its own and leaves the current one in use.
  const std::size_t wanted = bytes + align + sizeof(Chunk);
  const bool own = wanted > chunk_bytes_;
  const std::size_t size = own ? wanted : chunk_bytes_;
  auto* chunk = static_cast<Chunk*>(std::malloc(size));
  CORE_CHECK(chunk != nullptr);
  chunk->previous = chunks_;
  chunks_ = chunk;
  taken_ += size;
  auto* begin = reinterpret_cast<std::byte*>(chunk + 1);
  const std::uintptr_t p = (reinterpret_cast<std::uintptr_t>(begin) + (align - 1)) & ~(align - 1);
  if (!own) {
    next_ = reinterpret_cast<std::byte*>(p + bytes);
    end_ = reinterpret_cast<std::byte*>(chunk) + size;
  }
  return reinterpret_cast<void*>(p);
}

std::string_view Arena::copy(std::string_view text) {
  char* to = static_cast<char*>(allocate(text.size() + 1, 1));
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  to[text.size()] = '\0';
  return {to, text.size()};
}

std::string_view Arena::concat_views(std::span<const std::string_view> parts) {
  std::size_t length = 0;
  for (auto part : parts) length += part.size();
  char* to = static_cast<char*>(allocate(length + 1, 1));
  char* at = to;
  for (auto part : parts) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  *at = '\0';
  return {to, length};
}

void Arena::on_reset(void* object, void (*function)(void*)) {
  auto* cleanup = static_cast<Cleanup*>(allocate(sizeof(Cleanup), alignof(Cleanup)));
  *cleanup = {cleanups_, object, function};
  cleanups_ = cleanup;
}

void Arena::reset() {
  // A destructor may register nothing new, but may read other objects of the arena: memory goes
  // last.
  while (cleanups_ != nullptr) {
    Cleanup* cleanup = cleanups_;
    cleanups_ = cleanup->previous;
    cleanup->function(cleanup->object);
  }
  while (chunks_ != nullptr) {
    Chunk* chunk = chunks_;
    chunks_ = chunk->previous;
    std::free(chunk);
  }
  taken_ = 0;
  next_ = first_;
  end_ = first_ == nullptr ? nullptr : first_ + first_bytes_;
}

}  // namespace corehttpd
