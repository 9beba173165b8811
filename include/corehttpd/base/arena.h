// A bump allocator whose contents die together: one per exchange (request) and one per
// configuration. Objects with a destructor get it run at reset, newest first. Not for anything that
// a kernel operation in flight may still write to or read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace corehttpd {

class Arena {
 public:
  // chunk_bytes: size of each further chunk taken from malloc; larger single requests get a chunk
  // of their own.
  explicit Arena(std::size_t chunk_bytes = 4096) : chunk_bytes_(chunk_bytes) {}
  // Starts in storage that the caller owns and that must outlive the arena.
  Arena(std::span<std::byte> first, std::size_t chunk_bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { reset(); }

  // Never returns nullptr: malloc failing under the budget aborts (design §7). align is a power of
  // two.
  void* allocate(std::size_t bytes, std::size_t align = alignof(std::max_align_t)) {
    std::uintptr_t p = (reinterpret_cast<std::uintptr_t>(next_) + (align - 1)) & ~(align - 1);
    if (p + bytes > reinterpret_cast<std::uintptr_t>(end_) || next_ == nullptr)
      return allocate_slow(bytes, align);
    next_ = reinterpret_cast<std::byte*>(p + bytes);
    return reinterpret_cast<void*>(p);
  }
  template <class T, class... Args>
  T* make(Args&&... args) {
    T* object = new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
    if constexpr (!std::is_trivially_destructible_v<T>)
      on_reset(object, [](void* p) { static_cast<T*>(p)->~T(); });
    return object;
  }
  // Value-initialized; only for trivially destructible types.
  template <class T>
  std::span<T> make_array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count == 0) return {};
    T* first = static_cast<T*>(allocate(sizeof(T) * count, alignof(T)));
    for (std::size_t i = 0; i < count; ++i) new (first + i) T();
    return {first, count};
  }
  // A copy that lives as long as the arena; NUL-terminated one byte past its end, for system calls.
  std::string_view copy(std::string_view text);
  template <class... Parts>
  std::string_view concat(const Parts&... parts) {
    std::string_view views[] = {std::string_view(parts)...};
    return concat_views(views);
  }
  std::string_view concat_views(std::span<const std::string_view> parts);
  // Runs function(object) at reset.
  void on_reset(void* object, void (*function)(void*));
  // Destroys everything and gives back all chunks but the first storage.
  void reset();
  // Bytes taken from malloc, for limits and statistics.
  std::size_t chunk_bytes_total() const { return taken_; }

 private:
  struct Chunk {
    Chunk* previous;
  };
  struct Cleanup {
    Cleanup* previous;
    void* object;
    void (*function)(void*);
  };
  void* allocate_slow(std::size_t bytes, std::size_t align);

  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  Chunk* chunks_ = nullptr;
  Cleanup* cleanups_ = nullptr;
  std::byte* first_ = nullptr;
  std::size_t first_bytes_ = 0;
  std::size_t chunk_bytes_;
  std::size_t taken_ = 0;
};

// A growing array in an arena, for trivially copyable items; growth leaves the old storage to the
// arena.
template <class T>
class ArenaVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void push_back(Arena& arena, const T& item) {
    if (size_ == capacity_) grow(arena, capacity_ == 0 ? 8 : capacity_ * 2);
    data_[size_++] = item;
  }
  void reserve(Arena& arena, std::size_t count) {
    if (count > capacity_) grow(arena, count);
  }
  void clear() { size_ = 0; }
  void erase(std::size_t index) {
    for (std::size_t i = index + 1; i < size_; ++i) data_[i - 1] = data_[i];
    --size_;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& back() { return data_[size_ - 1]; }
  operator std::span<const T>() const { return {data_, size_}; }

 private:
  void grow(Arena& arena, std::size_t capacity) {
    T* fresh = static_cast<T*>(arena.allocate(sizeof(T) * capacity, alignof(T)));
    if (size_ != 0) std::memcpy(static_cast<void*>(fresh), data_, sizeof(T) * size_);
    data_ = fresh;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }
  T* data_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
};

}  // namespace corehttpd
