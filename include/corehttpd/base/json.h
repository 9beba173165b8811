// Strings of JSON (RFC 8259 §7) that are valid whatever bytes they are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace corehttpd {

// Appends value escaped, without the quotes around it. Well-formed UTF-8 stays as it is; each byte
// that is none becomes U+FFFD. Stops at the character that would make more than bytes_max bytes of
// output.
void append_json(std::string& out, std::string_view value, std::size_t bytes_max = SIZE_MAX);

// The same as a whole string, with its quotes.
void append_json_string(std::string& out, std::string_view value);

}  // namespace corehttpd
