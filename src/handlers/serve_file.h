// What serving a file takes once it has been looked up.
#pragma once

#include <string_view>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::handlers {

// A precompressed variant of what the URI names.
struct Variant {
  std::string_view coding;  // "gzip"; empty: the file itself.
  std::string_view suffix;  // "gz": tells the variant's entity tag from the others'.
};

// Answers with entry, a regular file. The media type is that of the URI.
http::StepOutcome serve_file(http::Exchange& exchange, assets::FileEntry entry,
                             const Variant& variant = {});

// Logs why path could not be looked up. The outcome is a failure with the status for it.
http::StepOutcome lookup_failed(http::Exchange& exchange, std::string_view path,
                                const Error& error);

}  // namespace corehttpd::handlers
