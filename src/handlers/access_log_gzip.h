// Compression of access logs.
#pragma once

#include <string>
#include <string_view>

namespace corehttpd::handlers {

// One complete gzip member (RFC 1952) that holds text: members one after another are a valid file.
// level: 1 to 9. Empty when there is no memory for it.
std::string gzip_member(std::string_view text, int level);

}  // namespace corehttpd::handlers
