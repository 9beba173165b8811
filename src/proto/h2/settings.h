// The http2_* directives.
#pragma once

#include <cstdint>

namespace corehttpd::h2 {

struct Settings {
  std::uint32_t max_concurrent_streams = 128;
  // Of a stream's window before anybody reads its body: what an upload can have sent until then.
  std::uint32_t body_preread_size = 65'536;
  std::uint32_t chunk_size = 8'192;  // The longest DATA frame.
};

}  // namespace corehttpd::h2
