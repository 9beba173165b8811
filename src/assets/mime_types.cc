#include "corehttpd/assets/mime_types.h"

#include <bit>

#include "corehttpd/base/text.h"

namespace corehttpd::assets {
namespace {

// FNV-1a: extensions are a few bytes long, and the table is the operator's, so nobody can attack
// it.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return hash;
}

}  // namespace

const MimeTypes* MimeTypes::build(Arena& arena, const MimeTypes* base,
                                  std::span<const MimeType> added) {
  auto* table = arena.make<MimeTypes>();
  const std::size_t inherited = base == nullptr ? 0 : base->entries_.size();
  std::span<MimeType> entries = arena.make_array<MimeType>(inherited + added.size());
  // At most half full, so that a miss ends soon.
  table->slots_ = arena.make_array<std::uint32_t>(std::bit_ceil(entries.size() * 2 + 1));
  const std::size_t mask = table->slots_.size() - 1;
  std::size_t count = 0;
  auto insert = [&](std::string_view extension, std::string_view type) {
    std::size_t slot = hash_of(extension) & mask;
    for (; table->slots_[slot] != 0; slot = (slot + 1) & mask) {
      MimeType& entry = entries[table->slots_[slot] - 1];
      if (entry.extension != extension) continue;
      entry.type = type;
      return;
    }
    entries[count++] = {extension, type};
    table->slots_[slot] = static_cast<std::uint32_t>(count);
  };
  if (base != nullptr) {
    for (const MimeType& entry : base->entries_) insert(entry.extension, entry.type);
  }
  for (const MimeType& entry : added) {
    auto* lowered = static_cast<char*>(arena.allocate(entry.extension.size() + 1, 1));
    for (std::size_t i = 0; i < entry.extension.size(); ++i) {
      lowered[i] = text::lower(entry.extension[i]);
    }
    insert({lowered, entry.extension.size()}, entry.type);
  }
  table->entries_ = entries.first(count);
  return table;
}

std::string_view MimeTypes::find(std::string_view extension) const {
  if (extension.empty() || extension.size() > kExtensionMax || slots_.empty()) return {};
  char lowered[kExtensionMax];
  for (std::size_t i = 0; i < extension.size(); ++i) lowered[i] = text::lower(extension[i]);
  const std::string_view wanted(lowered, extension.size());
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash_of(wanted) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const MimeType& entry = entries_[slots_[slot] - 1];
    if (entry.extension == wanted) return entry.type;
  }
  return {};
}

const MimeTypes& builtin_types() {
  static constexpr MimeType kTypes[] = {
      {"html", "text/html"}, {"gif", "image/gif"}, {"jpg", "image/jpeg"}};
  static Arena arena;
  static const MimeTypes* const types = MimeTypes::build(arena, nullptr, kTypes);
  return *types;
}

std::string_view uri_extension(std::string_view uri) {
  for (std::size_t i = uri.size(); i-- > 0;) {
    if (uri[i] == '/') return {};
    if (uri[i] != '.') continue;
    // A leading dot names a hidden file, it doesn't begin an extension.
    if (i == 0 || uri[i - 1] == '/') return {};
    return uri.substr(i + 1);
  }
  return {};
}

}  // namespace corehttpd::assets
