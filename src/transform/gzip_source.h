// A body compressed on its way out.
#pragma once

#include "corehttpd/http/exchange.h"

namespace corehttpd::transform {

// In the exchange's arena. nullptr when there is no memory for a compressor; inner is then
// untouched. level: 1 to 9.
http::BodySource* make_gzip_source(http::Exchange& exchange, http::BodySource& inner, int level);

}  // namespace corehttpd::transform
