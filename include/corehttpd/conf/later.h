// The directives of nginx that nothing handles yet, or that mean nothing here, so that an
// operator's configuration passes with a notice for each. What restricts access is refused instead:
// nothing is ever served because a guard was skipped.
#pragma once

#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

// Yields to every other module of the list: implementing a directive elsewhere needs no edit here
// (shadowed_rows() lists what may be deleted). Built at the first call, lives as long as the
// process.
const Module& later_module();

}  // namespace corehttpd::conf
