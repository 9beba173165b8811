// The directory that a URI names, for the handlers that look into it.
#pragma once

#include "corehttpd/assets/directory.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::handlers {

struct UriDirectory {
  const assets::DirectoryListing* listing = nullptr;  // Lives as long as the exchange.
  http::StepOutcome outcome;                          // Without a listing: what the step returns.
};

// Of the exchange's URI, which ends in a slash. The step that gets no listing may be run again.
// Failures are logged.
UriDirectory list_uri_directory(http::Exchange& exchange);

}  // namespace corehttpd::handlers
