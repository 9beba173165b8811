// From URIs to paths, as root and alias say.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "corehttpd/http/exchange.h"

namespace corehttpd::assets {

struct MappedPath {
  std::string_view path;       // Absolute, NUL-terminated past its end, in the exchange's arena.
  std::size_t root_bytes = 0;  // How much of path is the root's or the alias's own text.
};

// The path of uri under this location's root or alias. Nothing, with the reason logged, when there
// is none: an alias cannot serve a URI that a rewrite moved out of its location (500, as nginx),
// and a path holds no NUL.
std::optional<MappedPath> map_path(http::Exchange& exchange, std::string_view uri);

// $document_root: the evaluated root (or alias) itself, absolute. In the exchange's arena or the
// configuration.
std::string_view document_root(http::Exchange& exchange);

// try_files has found a file below an alias of a regex location: from here on this exchange's URI
// is appended to that alias.
void append_uri_to_alias(http::Exchange& exchange);

// The media type for uri by its extension, else default_type. Lives in the configuration.
std::string_view content_type(const http::Exchange& exchange, std::string_view uri);

}  // namespace corehttpd::assets
