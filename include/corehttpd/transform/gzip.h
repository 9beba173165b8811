// Compresses responses as they are sent: nginx's gzip filter.
#pragma once

#include "corehttpd/assets/gzip_settings.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::transform {

// Stands after the transforms that change heads and before range(): a compressed body has no length
// and offers no ranges.
const http::Transform& gzip();
const conf::Module& gzip_module();

using assets::GzipSettings;

}  // namespace corehttpd::transform
