// The four shapes in which autoindex lists a directory: nginx's, byte for byte, so that what reads
// them goes on reading them. Names are anybody's: nothing in them ends up as markup.
#pragma once

#include <string>
#include <string_view>

#include "corehttpd/assets/directory.h"

namespace corehttpd::handlers {

enum class ListingFormat : std::uint8_t { kHtml, kJson, kJsonp, kXml };

struct ListingOptions {
  ListingFormat format = ListingFormat::kHtml;
  bool exact_size = true;   // kHtml: bytes; else rounded to K, M and G.
  bool local_time = false;  // kHtml: of the server's zone; else UTC. The others are always UTC.
};

// Each appends to out.
void append_listing_head(std::string& out, const ListingOptions& options, std::string_view uri,
                         std::string_view callback);
void append_listing_entry(std::string& out, const ListingOptions& options,
                          const assets::DirectoryEntry& entry, bool first);
void append_listing_tail(std::string& out, const ListingOptions& options);

// Of a JSONP callback: letters, digits, '_' and '.', at most kCallbackBytesMax.
inline constexpr std::size_t kCallbackBytesMax = 128;
bool is_callback(std::string_view name);

}  // namespace corehttpd::handlers
