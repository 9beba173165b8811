// File name extensions and the media types they stand for (nginx's types block).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/arena.h"

namespace corehttpd::assets {

struct MimeType {
  std::string_view extension;  // Lower case, without the dot.
  std::string_view type;
};

// Immutable once built; lives in the configuration. Any number of sites share one table.
class MimeTypes {
 public:
  // Extensions longer than this have no type: no real one is, and lookups fold case on the stack.
  static constexpr std::size_t kExtensionMax = 32;

  // The entries of base (nullptr: none) and then of added; the later one of an extension wins.
  // Extensions are lower-cased into arena, types must live as long as it.
  static const MimeTypes* build(Arena& arena, const MimeTypes* base,
                                std::span<const MimeType> added);
  // Empty when the extension is unknown; case is ignored.
  std::string_view find(std::string_view extension) const;
  std::span<const MimeType> entries() const { return entries_; }

 private:
  std::span<MimeType> entries_;
  std::span<std::uint32_t> slots_;  // Open addressing, a power of two; index + 1, 0 is free.
};

// nginx's types without a types block: text/html html; image/gif gif; image/jpeg jpg.
const MimeTypes& builtin_types();

// The extension of a URI's last component as nginx sees it: "html" of "/a/b.tar.html"; none of
// "/.html" (a dot file) and of "/a.b/c".
std::string_view uri_extension(std::string_view uri);

}  // namespace corehttpd::assets
