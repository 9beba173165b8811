// Directives of other servers, which people paste: what says the same here.
#pragma once

#include <string_view>

namespace corehttpd::conf {

// "this is Apache's; here: …" for a name of another server's, in any case; empty: none that we
// know.
std::string_view foreign_help(std::string_view name);

}  // namespace corehttpd::conf
