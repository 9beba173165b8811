// Base64 (RFC 4648 §4).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "corehttpd/base/arena.h"

namespace corehttpd {

// Nothing when text is no base64; padding may be missing. The result lives in the arena.
std::optional<std::string_view> decode_base64(Arena& arena, std::string_view text);
std::optional<std::string> decode_base64(std::string_view text);
// With padding.
std::string encode_base64(std::string_view bytes);

}  // namespace corehttpd
